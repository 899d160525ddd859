// What the workers of one mount share. Everything in it is thread-safe or constant.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "fuse/cache/acl_habit.h"
#include "fuse/cache/found_gone.h"
#include "fuse/cache/inode_table.h"
#include "fuse/cache/known_links.h"
#include "fuse/files/behind_table.h"
#include "fuse/files/idle_opens.h"
#include "fuse/files/lock_owners.h"
#include "fuse/files/open_files.h"
#include "fuse/kernel/notifier.h"
#include "fuse/options/options.h"
#include "fuse/request/identity_cache.h"
#include "runtime/cpu_latency.h"
#include "wire/protocol/attributes.h"

namespace dafs::fuse {

// What the server said last. umount(8) asks for the attributes of the root and for STATFS, and must
// get an answer also when the server is gone.
template <class T>
class LastKnown {
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
  T value_ ABSL_GUARDED_BY(mutex_);  // nothing valid in it: never asked
};

struct MountState {
  explicit MountState(Options options_in) : options(std::move(options_in)), inodes(options.cache) {}

  const Options options;
  // Whether the kernel checks modes and ACLs before it asks; decided before it mounts.
  bool default_permissions = options.default_permissions;
  InodeTable inodes;
  OpenFiles open_files;
  IdleOpens idle_opens;
  OpenDirectories open_directories;
  LockOwners lock_owners;
  BehindTable behind;
  IdentityCache identities{options.source.text};
  LastKnown<wire::FsAttributes> statfs;
  LastKnown<wire::FileAttributes> root;
  // Workers whose session has not answered a NULL in time (attributes.cc). A hint: it publishes
  // nothing else.
  std::atomic<uint32_t> silent_workers{0};

  // A name for the owner of an OPEN: for each open of the kernel and for each owner of record locks
  // another, since a lock's owner is its OPEN's.
  std::string NewOwner() {
    const uint64_t number = next_owner.fetch_add(1, std::memory_order_relaxed);
    std::string owner(sizeof(number), '\0');
    std::memcpy(owner.data(), &number, sizeof(number));
    return owner;
  }
  std::atomic<uint64_t> next_owner{1};  // gives numbers only
  KnownLinks known_links;
  FoundGone found_gone;  // by OPEN and OPENDIR
  AclHabit acl_habit;
  // The kernel's INIT was answered; `init_error` (errno) was set before.
  absl::Notification initialised;
  std::atomic<int> init_error{0};  // published by `initialised`
  // What of the protocol kernel and mount have agreed on, FUSE_... bits; set with INIT's answer,
  // before any other request.
  std::atomic<uint64_t> init_flags{0};
  // Of the workers' loops; set before they start. Null: none.
  std::unique_ptr<dat::CpuLatency> cpu_latency;
  // The kernel asks for labels itself; set before the workers serve.
  bool selinux = false;
  // The workers have rings, and INIT asks for them; set before the workers serve.
  bool wants_io_uring = false;
  // Drops what the kernel caches of files; set before the workers serve. Null: nothing is dropped.
  std::unique_ptr<Notifier> notifier;
  // Hands an INTERRUPT to the workers that did not read it; set before the workers serve.
  absl::AnyInvocable<void(uint64_t unique) const> interrupt_all;
};

}  // namespace dafs::fuse
