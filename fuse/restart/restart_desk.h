// Where the thread that answers dafsctl leaves requests to restart a mount, and where the main
// thread leaves what came of them. Thread-safe; nothing blocks.
//
// Requests of dafsctl:
//   restart [PROGRAM]  asks for a restart with that program; empty: the one of the mount
//   restarted          the number of restarts, then on the next line why the last one asked of this
//                      process was refused; empty: it was not
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "runtime/unique_fd.h"

namespace dafs::fuse {

class RestartDesk {
 public:
  RestartDesk();

  // From the main thread. `can`: there is a guardian. `restarts`: so far.
  void Open(bool can, uint64_t restarts) ABSL_LOCKS_EXCLUDED(mutex_);
  // Readable when dafsctl has requested a restart; -1: it cannot.
  int fd() const { return event_.get(); }
  // The program of that request; nullopt: there is none.
  std::optional<std::string> Take() ABSL_LOCKS_EXCLUDED(mutex_);
  void Refused(std::string why) ABSL_LOCKS_EXCLUDED(mutex_);

  // Answers the requests above; nullopt: it is none of them. `may_restart`: whether the asker may.
  std::optional<absl::StatusOr<std::string>> Answer(std::string_view request, bool may_restart)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<std::string> Ask(std::string_view program) ABSL_LOCKS_EXCLUDED(mutex_);

  const UniqueFd event_;
  absl::Mutex mutex_;
  bool can_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t restarts_ ABSL_GUARDED_BY(mutex_) = 0;
  bool under_way_ ABSL_GUARDED_BY(mutex_) = false;
  std::string program_ ABSL_GUARDED_BY(mutex_);
  std::string refused_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::fuse
