#include "fuse/restart/restart_desk.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace dafs::fuse {

RestartDesk::RestartDesk() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void RestartDesk::Open(bool can, uint64_t restarts) {
  absl::MutexLock lock(&mutex_);
  can_ = can && event_.valid();
  restarts_ = restarts;
}

std::optional<std::string> RestartDesk::Take() {
  uint64_t count = 0;
  if (read(event_.get(), &count, sizeof(count)) != sizeof(count)) return std::nullopt;
  absl::MutexLock lock(&mutex_);
  return program_;
}

void RestartDesk::Refused(std::string why) {
  absl::MutexLock lock(&mutex_);
  under_way_ = false;
  refused_ = std::move(why);
}

std::optional<absl::StatusOr<std::string>> RestartDesk::Answer(std::string_view request,
                                                               bool may_restart) {
  constexpr std::string_view kRestart = "restart ";
  if (!may_restart && (request == "restart" || request.starts_with(kRestart))) {
    return absl::PermissionDeniedError("only root may restart a mount");
  }
  if (request == "restart") return Ask("");
  if (request.starts_with(kRestart)) return Ask(request.substr(kRestart.size()));
  if (request != "restarted") return std::nullopt;
  absl::MutexLock lock(&mutex_);
  return absl::StrCat(restarts_, "\n", refused_);
}

absl::StatusOr<std::string> RestartDesk::Ask(std::string_view program) {
  absl::MutexLock lock(&mutex_);
  if (!can_) {
    return absl::FailedPreconditionError(
        "this mount has no guardian, so its mount.dafs cannot be replaced; see guardian in "
        "mount.dafs(8)");
  }
  if (std::exchange(under_way_, true)) {
    return absl::FailedPreconditionError("a restart is under way");
  }
  program_ = std::string(program);
  refused_.clear();
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof(one));
  return "asked\n";
}

}  // namespace dafs::fuse
