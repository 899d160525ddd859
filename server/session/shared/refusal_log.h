// Decides which refusals of clients are logged: a flood of connections must not flood the log.
// Thread-safe; nothing blocks.
#pragma once

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace dafs::server {

class RefusalLog {
 public:
  // Admits one line per host and kind, and kMost lines in all, in each period of kEvery.
  static constexpr absl::Duration kEvery = absl::Seconds(30);
  static constexpr size_t kMost = 30;

  // Returns true if a refusal of `host` for a reason of `kind` is to be logged.
  bool Admits(const std::string& host, const char* kind, absl::Time now)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (now - since_ >= kEvery) {
      since_ = now;
      logged_.clear();
    }
    return logged_.size() < kMost && logged_.emplace(host, kind).second;
  }

 private:
  absl::Mutex mutex_;
  absl::Time since_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::flat_hash_set<std::pair<std::string, std::string>> logged_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
