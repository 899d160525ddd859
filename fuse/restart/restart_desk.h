// Passes requests to restart a mount from the thread that answers dafsctl to the main thread, and
// the results back. Thread-safe; nothing blocks.
//
// Requests of dafsctl:
//   restart [PROGRAM]  requests a restart with that program; empty: the one of the mount
//   restarted          returns the number of restarts and, on the next line, why this process
//                      refused the last request; empty: it did not
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "runtime/files/unique_fd.h"

namespace dafs::fuse {

class RestartDesk {
 public:
  RestartDesk();

  // Called by the main thread. `can`: a guardian can start the next process. `restarts`: so far.
  void Open(bool can, uint64_t restarts) ABSL_LOCKS_EXCLUDED(mutex_);
  // Readable when dafsctl has requested a restart; -1: eventfd(2) failed.
  int fd() const { return event_.get(); }
  // The program of that request; nullopt: no request.
  std::optional<std::string> Take() ABSL_LOCKS_EXCLUDED(mutex_);
  void Refused(std::string why) ABSL_LOCKS_EXCLUDED(mutex_);

  // Answers the requests above; nullopt: another request. `may_restart`: the user of dafsctl may.
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
