// Logs the file system that a part of the start waits for, so that the operator learns which one
// hangs.
#pragma once

#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace dafs::server {

// While it lives, the owner waits for `what`. Logs a line when Times::first has passed, then one
// every Times::again, and one at the end if it logged before. Has a thread of its own, because its
// owner may hang.
class StallReport {
 public:
  struct Times {
    absl::Duration first;
    absl::Duration again = absl::Minutes(1);
  };
  StallReport(std::string what, Times times);
  ~StallReport();
  StallReport(const StallReport&) = delete;
  StallReport& operator=(const StallReport&) = delete;

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string what_;
  const Times times_;
  absl::Mutex mutex_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace dafs::server
