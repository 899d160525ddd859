// Says in the log what a start waits for: a file system that hangs keeps the server from serving,
// and its operator must learn which.
#pragma once

#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace dafs::server {

// While it lives, `what` is waited for. Logged kFirst after its construction, kAgain after that and
// so on, and once more at the end if it was logged at all. A thread of its own: its owner hangs.
class StallReport {
 public:
  struct Times {
    absl::Duration first = absl::Seconds(5);
    absl::Duration again = absl::Minutes(1);
  };
  explicit StallReport(std::string what) : StallReport(std::move(what), Times()) {}
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
