// The owners of record locks (fcntl) and their OPENs at the server.
// Spec: docs/decisions.md, Locks; draft 4.4.1.2, 6.5.18. docs/fuse.md 8.
//
// A lock at the server belongs to the owner of an OPEN. So each owner that the kernel names gets
// its own OPEN of each file that it locks. An owner is a process, or the open file description of
// an OFD lock; the kernel does not say which. It ends, with all its locks, when the process closes
// any descriptor of the file (FLUSH names the owner). It also ends when the last handle through
// which it locked is released (RELEASE; nothing else reports the end of an OFD lock). The kernel
// reuses its numbers: an owner that has ended is never the same as a later one, even while its OPEN
// is being closed. Thread-safe: one mutex, held for a few lookups.
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
#include "client/state/records/identity.h"
#include "fuse/files/live_files.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

struct LockOwner {
  uint64_t nodeid = 0;
  uint64_t kernel_owner = 0;
  uint64_t number = 0;   // unique in the mount
  uint64_t process = 0;  // the same for all owners of one kernel_owner; not 0
  std::string name;      // as the server knows it (wire/protocol/process_owner.h)
  // The user whose OPEN its first lock used. Not null.
  std::shared_ptr<const client::Identity> opener;

  // Guarded by the table's mutex, which an annotation cannot name here.
  wire::StateId state_id;  // of its open among client::Opens; zero: not opened yet
  uint32_t pid = 0;        // the process that locked last
  uint32_t users = 0;      // calls in progress
  bool ended = false;
  absl::flat_hash_set<uint64_t> handles;  // it locked through these
  uint32_t live_slot = 0;                 // LiveFiles
};

// Shared by the table and the calls in progress.
using LockOwnerRef = std::shared_ptr<LockOwner>;

class LockOwners {
 public:
  // Records all owners from now on, for a crash. Before the first request.
  void RecordIn(LiveFiles live) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    live_ = live;
  }

  // The owner (nodeid, kernel_owner) of `fresh` locks through `handle` as process `pid`. Returns
  // it; if there was none, adds `fresh`, with its process and name. The caller uses it until Leave.
  LockOwnerRef Enter(const LockOwner& fresh, uint64_t handle, uint32_t pid);
  // Returns the owner, used by the caller until Leave; null if there is none.
  LockOwnerRef EnterExisting(uint64_t nodeid, uint64_t kernel_owner);
  // Returns true if the owner has ended and this was its last user. The caller then closes its
  // OPEN.
  bool Leave(LockOwner& owner);

  wire::StateId OpenOf(const LockOwner& owner) const;
  void Opened(LockOwner& owner, const wire::StateId& state_id);
  bool HasEnded(const LockOwner& owner) const;
  // Its OPEN has been closed.
  void Closed(LockOwner& owner);

  // An owner that has just ended. `unused`: the caller closes its OPEN. Otherwise its last user
  // will, and the caller releases its locks now.
  struct Ended {
    LockOwnerRef owner;  // null: none has ended
    bool unused = false;
  };
  Ended End(uint64_t nodeid, uint64_t kernel_owner);
  std::vector<Ended> EndHandle(uint64_t handle);

  // The process of an owner that the server names; nullopt if the owner has ended.
  std::optional<uint32_t> PidOf(const std::string& name) const;
  size_t size() const;
  uint64_t last_process() const;

  // For the program that continues the mount (docs/restart.md): all owners, while no call uses one.
  // Restore: into an empty table, before the first request. False: two are the same.
  std::vector<LockOwner> Save(uint64_t* last_process) const;
  bool Restore(std::vector<LockOwner> owners, uint64_t last_process);

 private:
  void Record(LockOwner& owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  using Key = std::pair<uint64_t, uint64_t>;  // nodeid, kernel owner
  Ended Remove(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The kernel reuses a kernel_owner when its process has ended, maybe while the server still has
  // its locks. So processes have numbers of their own.
  struct Process {
    uint64_t number = 0;
    size_t owners = 0;
  };

  mutable absl::Mutex mutex_;
  LiveFiles live_ ABSL_GUARDED_BY(mutex_){nullptr};
  absl::flat_hash_map<Key, LockOwnerRef> owners_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Process> processes_ ABSL_GUARDED_BY(mutex_);  // by kernel_owner
  uint64_t last_process_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, LockOwner*> by_name_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, absl::flat_hash_set<Key>> by_handle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::fuse
