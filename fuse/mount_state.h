// What the workers of one mount share. Everything in it is thread-safe or constant.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "fuse/identity_cache.h"
#include "fuse/inode_table.h"
#include "fuse/open_files.h"
#include "fuse/options.h"
#include "wire/attributes.h"

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
  InodeTable inodes;
  OpenFiles open_files;
  OpenDirectories open_directories;
  IdentityCache identities;
  LastKnown<wire::FsAttributes> statfs;
  LastKnown<wire::FileAttributes> root;

  // Numbers the OPENs of this mount: each is an owner of its own at the server. Gives numbers only.
  std::atomic<uint64_t> next_owner{1};
  // The kernel's INIT was answered; `init_error` (errno) was set before.
  absl::Notification initialised;
  std::atomic<int> init_error{0};  // published by `initialised`
  // Hands an INTERRUPT to the workers that did not read it; set before the workers serve.
  absl::AnyInvocable<void(uint64_t unique) const> interrupt_all;
};

}  // namespace dafs::fuse
