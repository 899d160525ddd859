// What the RootStatus of all workers share, for umount(8), which must get an answer even if the
// server is unreachable. Thread-safe. Nothing blocks.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "wire/protocol/attributes.h"

namespace dafs::fuse {

// The server's last reply. umount(8) requests STATFS and the attributes of the root
// (AttributeCache::LastOfDirectory).
template <class T>
class LastReply {
 public:
  void Set(const T& value) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    value_ = value;
  }
  T Get() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return value_;
  }

 private:
  mutable absl::Mutex mutex_;
  T value_ ABSL_GUARDED_BY(mutex_);  // has no valid field until the first reply
};

struct RootReplies {
  LastReply<wire::FsAttributes> statfs;
  // Number of workers whose session has not answered a NULL in time. A hint; publishes no other
  // data.
  std::atomic<uint32_t> silent_workers{0};
};

}  // namespace dafs::fuse
