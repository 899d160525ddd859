// The objects that answers of the control socket read. Borrowed; all are thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/clients/options.h"
#include "server/session/shared/shared.h"

namespace dafs::server {

struct AdminView {
  Shared shared;
  const std::vector<ListenAddress>* bound = nullptr;  // does not change any more
  absl::Time since;  // of Loop::Now: when the server began to serve
  // Server::Reload.
  std::function<absl::StatusOr<std::string>(std::string_view by)> reload;
  // Administration::AnnounceMove.
  std::function<void(const std::string& to, std::string_view by)> move;
};

}  // namespace dafs::server
