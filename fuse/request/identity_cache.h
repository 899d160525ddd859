// Who a request comes from. The kernel gives uid, gid and pid; the supplementary groups are read
// from /proc/PID/status, some 10 us. For a request that opens or changes something they are read
// each time: a process may take another user's groups between two calls. For one that only looks
// they are believed for a second, and read again before it is refused.
// The kernel gives pid 0 for a process that is not visible in the PID namespace of this mount. Its
// groups are then those of its user in the user database, and the first such caller is logged.
// Thread-safe; may block for the time that /proc or the user database takes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/state/identity.h"
#include "fuse/request/caller_proc.h"

namespace dafs::fuse {

inline constexpr absl::Duration kGroupsAreBelievedFor = absl::Seconds(1);
// The user database may be a directory service: one query a minute for each user.
inline constexpr absl::Duration kDatabaseIsBelievedFor = absl::Minutes(1);

enum class Groups : uint8_t {
  kNow,     // as they are now
  kRecent,  // as they were at most kGroupsAreBelievedFor ago
};

// The groups of a user by getgrouplist(3), in ascending order; none if the database lacks the user.
std::vector<uint32_t> GroupsInDatabase(uint32_t uid);

class IdentityCache {
 public:
  using UserDatabase = std::function<std::vector<uint32_t>(uint32_t uid)>;

  // `name`: of the mount, for the log. `proc` and the user database, for tests.
  explicit IdentityCache(std::string name, CallerProc proc = CallerProc(),
                         UserDatabase database = GroupsInDatabase);

  // The identity of process (or thread) `pid`, acting as `uid` and `gid`. Without groups if the
  // process is gone, or acts as root, which needs none.
  // The owners of the result are this cache and whoever acts for the caller.
  std::shared_ptr<const client::Identity> Get(uint32_t uid, uint32_t gid, uint32_t pid,
                                              Groups groups, absl::Time now)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    std::shared_ptr<const client::Identity> identity;
    absl::Time read_at;
  };

  std::vector<uint32_t> GroupsFromDatabase(uint32_t uid);

  const std::string name_;
  const CallerProc proc_;
  const UserDatabase database_;
  std::atomic<bool> said_database_{false};  // publishes nothing but itself
  absl::Mutex mutex_;
  // Of callers whose process is visible; pid 0: callers that act as root.
  absl::flat_hash_map<uint32_t, Entry> by_pid_ ABSL_GUARDED_BY(mutex_);
  // Of the others.
  absl::flat_hash_map<uint32_t, Entry> by_user_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::fuse
