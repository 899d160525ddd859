// What root changes through the control socket. Called on its thread; nothing waits for a client or
// a file system.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/admin/admin_view.h"

namespace dafs::server {

struct AdminCommand {
  std::string_view word;
  // Returns what was done. kInvalidArgument, kNotFound.
  absl::StatusOr<std::string> (*run)(const AdminView& view, const std::string& argument);
};

// Null: there is no such command.
const AdminCommand* FindAdminCommand(std::string_view word);

}  // namespace dafs::server
