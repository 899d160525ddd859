// Collects reports of several threads, each from a function posted to it, for a limited time.
// Shared by the thread that waits and those functions: one that is late finds it still alive.
// Thread-safe. Only Await blocks.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace dafs {

template <class Report>
class Gather {
 public:
  // One more report will come: call it before the function is posted.
  void Expect() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ++missing_;
  }
  void Put(Report report) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    reports_.push_back(std::move(report));
    --missing_;
  }

  struct Result {
    std::vector<Report> reports;  // in the order of arrival
    size_t missing = 0;           // did not come in time
  };
  // Waits for all reports, kLongest at most, and returns those that have come.
  Result Await() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &Gather::complete), kLongest);
    return {std::exchange(reports_, {}), missing_};
  }

 private:
  static constexpr absl::Duration kLongest = absl::Seconds(1);
  bool complete() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return missing_ == 0; }

  absl::Mutex mutex_;
  size_t missing_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Report> reports_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs
