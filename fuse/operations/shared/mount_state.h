// State that the workers of one mount share. Everything in it is thread-safe, constant, or set
// before the workers serve.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "client/exchange/in_flight.h"
#include "fuse/cache/absent_xattr_cache.h"
#include "fuse/cache/attribute_cache.h"
#include "fuse/cache/directories/directory_names.h"
#include "fuse/cache/directories/whole_directories.h"
#include "fuse/cache/inode_table.h"
#include "fuse/cache/kernel_pages.h"
#include "fuse/cache/outdated_files.h"
#include "fuse/cache/promise_rules.h"
#include "fuse/cache/stale_open_tracker.h"
#include "fuse/cache/write_trackers.h"
#include "fuse/files/left_opens.h"
#include "fuse/files/live_files.h"
#include "fuse/files/lock_owners.h"
#include "fuse/files/open_files.h"
#include "fuse/files/user_clients.h"
#include "fuse/files/write_behind_table.h"
#include "fuse/kernel/notifications/notifier.h"
#include "fuse/kernel/protocol.h"
#include "fuse/options/options.h"
#include "fuse/request/identity_cache.h"
#include "runtime/loop/cpu_latency.h"
#include "runtime/loop/loop.h"
#include "wire/protocol/attributes.h"

namespace dafs::fuse {

// The server's last reply. umount(8) requests STATFS and the attributes of the root
// (AttributeCache::LastOfDirectory), and must get an answer even if the server is unreachable.
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

struct MountState {
  explicit MountState(Options options_in) : options(std::move(options_in)) {}

  const Options options;
  // Whether the kernel checks modes and ACLs before it sends a request; decided before mount(2).
  bool default_permissions = options.default_permissions;
  // Decides by the server's promises how long the kernel may keep an answer.
  PromiseRules rules;
  // The nodes that the kernel knows, and what is cached about each.
  InodeTable inodes;
  AttributeCache attributes{inodes, options.cache, rules};
  DirectoryNames directory_names{Loop::Now()};
  WholeDirectories whole_directories;
  KernelPages pages{inodes};
  AbsentXattrCache absent_xattrs{inodes, options.cache, rules};
  WriteTrackers write_trackers{inodes};

  OpenFiles open_files;
  OpenDirectories open_directories;
  LockOwners lock_owners;
  // Their record for a process that goes on after this one was killed; set before the first
  // request.
  LiveFiles live_files{nullptr};
  LeftOpens left_opens;    // what a killed process had opened for requests not answered
  OutdatedFiles outdated;  // what may have changed since a process was killed
  // With sec=krb5: the clients of the users; set before the first request. Null: all users share
  // the session of the mount.
  UserClients* users = nullptr;
  WriteBehindTable write_behind;
  IdentityCache identities{options.source.text};
  LastReply<wire::FsAttributes> statfs;
  // Number of workers whose session has not answered a NULL in time (RootStatus). A hint;
  // publishes no other data.
  std::atomic<uint32_t> silent_workers{0};

  // Returns a name for the owner of an OPEN. Each open of the kernel and each owner of record locks
  // has its own, because the owner of a lock is the owner of its OPEN. That of a request of the
  // kernel is always the same: if another program carries it out again after a crash, the server
  // finds its first open.
  std::string NewOwner() { return OwnerOf(NewOwnerNumber()); }
  static std::string OwnerOfRequest(uint64_t unique) {
    return OwnerOf((unique & ~kUniqueResent) | kOfRequest);
  }
  // The number of that request; 0: it is another owner.
  static uint64_t RequestOf(std::string_view owner) {
    uint64_t number = 0;
    if (owner.size() != sizeof(number)) return 0;
    std::memcpy(&number, owner.data(), sizeof(number));
    return (number & kOfRequest) != 0 ? number & ~kOfRequest : 0;
  }
  uint64_t NewOwnerNumber() { return next_owner.fetch_add(1, std::memory_order_relaxed); }
  std::atomic<uint64_t> next_owner{1};  // publishes no other data
  StaleOpenTracker stale_opens;         // used by OPEN, OPENDIR and LINK
  // How many more parts of listings are read with ACLs, which ls -l requests afterwards and find(1)
  // does not. A request for an ACL renews the count. A hint; publishes nothing.
  static constexpr int kListingsWithAcls = 6;
  // At first, three: as much as ls -l reads before its first request.
  std::atomic<int> listings_with_acls{kListingsWithAcls / 2};
  // Notified after the kernel's INIT was answered; `init_error` (errno) is set before.
  absl::Notification initialised;
  std::atomic<int> init_error{0};  // published by `initialised`
  // The FUSE_... bits that the kernel and the mount agreed on; set with INIT's answer, before any
  // other request.
  std::atomic<uint64_t> init_flags{0};
  // The CPU latency request of the workers' loops; set before they start. Null: none.
  std::unique_ptr<CpuLatency> cpu_latency;
  // The kernel has SELinux, and reads labels itself; set before the workers serve.
  bool selinux = false;
  // The workers have rings, and INIT requests io_uring; set before the workers serve.
  bool wants_io_uring = false;
  // Invalidates the kernel's cached pages; set before the workers serve. Null: nothing is
  // invalidated.
  std::unique_ptr<Notifier> notifier;
  // The changes that are under way, for the program that continues the mount after a kill; set
  // before the workers serve. Null: no program does.
  std::unique_ptr<client::InFlightTable> in_flight;
  // Passes an INTERRUPT to all workers; set before the workers serve.
  absl::AnyInvocable<void(uint64_t unique) const> interrupt_all;

 private:
  // Neither a number of NewOwnerNumber nor one of the kernel has this bit.
  static constexpr uint64_t kOfRequest = uint64_t{1} << 62;
  static std::string OwnerOf(uint64_t number) {
    std::string owner(sizeof(number), '\0');
    std::memcpy(owner.data(), &number, sizeof(number));
    return owner;
  }
};

}  // namespace dafs::fuse
