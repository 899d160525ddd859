// Who a request comes from. The kernel gives uid, gid and pid; the supplementary groups are read
// from /proc/PID/status, some 10 us. For a request that opens or changes something they are read
// each time: a process may take another user's groups between two calls. For one that only looks
// they are believed for a second, and read again before it is refused.
// Thread-safe; may block for the time /proc takes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/identity.h"

namespace dafs::fuse {

inline constexpr absl::Duration kGroupsAreBelievedFor = absl::Seconds(1);

enum class Groups : uint8_t {
  kNow,     // as they are now
  kRecent,  // as they were at most kGroupsAreBelievedFor ago
};

class IdentityCache {
 public:
  // `proc`: where /proc is, for tests.
  explicit IdentityCache(std::string proc = "/proc") : proc_(std::move(proc)) {}

  // The identity of process (or thread) `pid`, acting as `uid` and `gid`. Without groups if the
  // process is gone, is not visible to us (pid 0), or acts as root, to whom they mean nothing.
  // The owners of the result are this cache and whoever acts for the caller.
  std::shared_ptr<const client::Identity> Get(uint32_t uid, uint32_t gid, uint32_t pid,
                                              Groups groups, absl::Time now)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    std::shared_ptr<const client::Identity> identity;
    absl::Time read_at;
  };

  const std::string proc_;
  absl::Mutex mutex_;
  absl::flat_hash_map<uint32_t, Entry> by_pid_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::fuse
