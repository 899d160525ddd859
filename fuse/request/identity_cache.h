// The user and groups that a request acts for. The kernel sends uid, gid and pid. Supplementary
// groups are read from /proc/PID/status, which takes some 10 us. A request that opens or changes
// something reads them each time, because a process may change its groups between two calls. A
// request that only looks uses groups read within the last second; they are read again before it is
// refused.
// The kernel sends pid 0 for a process that is not visible in the PID namespace of this mount. Its
// groups then come from the user database, and the first such caller is logged.
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
#include "client/state/records/identity.h"
#include "fuse/request/caller_proc.h"

namespace dafs::fuse {

inline constexpr absl::Duration kGroupsAreBelievedFor = absl::Seconds(1);
// The user database may be a directory service: one query a minute for each user.
inline constexpr absl::Duration kDatabaseIsBelievedFor = absl::Minutes(1);

enum class Groups : uint8_t {
  kNow,     // the current groups
  kRecent,  // groups read at most kGroupsAreBelievedFor ago
};

// Returns the groups of a user by getgrouplist(3), in ascending order; none if the database does
// not have the user.
std::vector<uint32_t> GroupsInDatabase(uint32_t uid);

class IdentityCache {
 public:
  using UserDatabase = std::function<std::vector<uint32_t>(uint32_t uid)>;

  // `name` names the mount in the log. Tests pass another `proc` and user database.
  explicit IdentityCache(std::string name, CallerProc proc = CallerProc(),
                         UserDatabase database = GroupsInDatabase);

  // Returns the identity of process (or thread) `pid`, acting as `uid` and `gid`. It has no groups
  // if the process has ended, or acts as root, which needs none.
  // This cache and the operations of the caller share the result.
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
  std::atomic<bool> said_database_{false};  // publishes no other data
  absl::Mutex mutex_;
  // Callers whose process is visible. Key 0: callers that act as root.
  absl::flat_hash_map<uint32_t, Entry> by_pid_ ABSL_GUARDED_BY(mutex_);
  // Callers whose process is not visible.
  absl::flat_hash_map<uint32_t, Entry> by_user_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::fuse
