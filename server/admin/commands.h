// The commands of root on the control socket. Called on its thread. Nothing waits for a client; a
// reload waits for the file systems of new exports, for a limited time.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/admin/admin_view.h"

namespace dafs::server {

struct AdminCommand {
  std::string_view word;
  // Returns what was done. `by`: the user, for the log. kInvalidArgument, kNotFound, and for reload
  // those of Server::Reload.
  absl::StatusOr<std::string> (*run)(const AdminView& view, const std::string& argument,
                                     std::string_view by);
};

// Null: there is no such command.
const AdminCommand* FindAdminCommand(std::string_view word);

}  // namespace dafs::server
