// The owners of record locks (fcntl) and their OPENs at the server.
// Spec: ARCHITECTURE "lock owners"; draft 4.4.1.2, 6.5.18. FUSE-FACTS 8.
//
// A lock at the server belongs to the owner of an OPEN, so each owner the kernel names (a process,
// or an open file description of an OFD lock; the kernel does not say which) gets an OPEN of his
// own of each file he locks. It ends, with all its locks, when the process closes any descriptor of
// the file (FLUSH names the owner), or when the last handle goes through which he locked (RELEASE;
// nothing else tells of the end of an OFD lock). The kernel uses its numbers again: an owner that
// has ended is never the same as a later one, not even while his OPEN is being closed.
// Thread-safe: one mutex, held for a few lookups.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "client/state/identity.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

struct LockOwner {
  uint64_t nodeid = 0;
  uint64_t kernel_owner = 0;
  wire::FileHandle handle;
  std::string name;  // as the server knows it
  std::shared_ptr<const client::Identity> opener;

  // Guarded by the table's mutex, which this struct does not see.
  wire::StateId state_id;  // zero: not opened yet
  uint32_t share = 0;      // what it is open for
  uint32_t pid = 0;        // who locked last
  uint32_t users = 0;      // calls in progress
  bool ended = false;
  absl::flat_hash_set<uint64_t> handles;  // he locked through these
};

// The owners are the table and the calls in progress.
using LockOwnerRef = std::shared_ptr<LockOwner>;

class LockOwners {
 public:
  // The owner (nodeid, kernel_owner) of `fresh`, who is `fresh` if there was none, locks through
  // `handle` as process `pid`. Used by the caller until Leave.
  LockOwnerRef Enter(const LockOwner& fresh, uint64_t handle, uint32_t pid);
  // The owner if there is one; null.
  LockOwnerRef EnterExisting(uint64_t nodeid, uint64_t kernel_owner);
  // True: he has ended, and the caller, his last user, closes his OPEN.
  bool Leave(LockOwner& owner);

  struct Open {
    wire::StateId state_id;
    uint32_t share = 0;
  };
  Open OpenOf(const LockOwner& owner) const;
  void Opened(LockOwner& owner, const wire::StateId& state_id, uint32_t share);
  bool HasEnded(const LockOwner& owner) const;

  // Somebody who has just ended. `unused`: the caller closes his OPEN; else his last user will, and
  // the caller gives up what he holds till then.
  struct Ended {
    LockOwnerRef owner;  // null: nobody
    bool unused = false;
  };
  Ended End(uint64_t nodeid, uint64_t kernel_owner);
  std::vector<Ended> EndHandle(uint64_t handle);

  // The process of an owner the server names; nothing if he has ended.
  std::optional<uint32_t> PidOf(const std::string& name) const;
  size_t size() const;

 private:
  using Key = std::pair<uint64_t, uint64_t>;  // nodeid, kernel owner
  Ended Remove(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Key, LockOwnerRef> owners_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, LockOwner*> by_name_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, absl::flat_hash_set<Key>> by_handle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::fuse
