// Takes the locks of one lock owner on one file in the kernel too, so that they conflict with the
// locks of programs on the server. Each owner has its own open file descriptions: one with
// open-file-description locks (fcntl, F_OFD_SETLK) for ranges, and one with flock(2) for the byte
// that stands for it. The kernel drops the locks when the descriptions are closed.
// The kernel cannot hold locks on byte 2^63 and above: only the LockTable has these.
// The caller serialises the calls for one KernelLock. Nothing waits for a lock; opening and locking
// are system calls on a local file.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "runtime/files/unique_fd.h"
#include "server/store/objects/object.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/status.h"

namespace dafs::server {

class KernelLock {
 public:
  // Counts its descriptors in `descriptors`, which must outlive the KernelLock.
  explicit KernelLock(std::atomic<size_t>& descriptors) : descriptors_(descriptors) {}
  ~KernelLock();
  KernelLock(const KernelLock&) = delete;
  KernelLock& operator=(const KernelLock&) = delete;

  // Locks a range, or changes its type, with the server's own privileges. `held`: the locks that
  // this owner holds. `writable`: the owner may lock for writing, so the file is opened for that.
  // DENIED: a program on the server holds a conflicting lock. RESOURCE and others from the kernel.
  // flock(2) converts a lock by releasing it first. If it is then denied, the old lock is lost.
  wire::DafsStatus Lock(const Object& file, const wire::LockRange& range,
                        const wire::LockRanges& held, bool writable);
  // Releases bytes `first` to `last`.
  void Unlock(uint64_t first, uint64_t last);
  // The descriptor that holds the range locks; -1: none. A test through it ignores these locks.
  int ranges_fd() const { return ranges_.get(); }

 private:
  wire::DafsStatus OpenRanges(const Object& file, bool write, const wire::LockRanges& held);
  void Keep(UniqueFd& slot, UniqueFd fd);

  std::atomic<size_t>& descriptors_;
  UniqueFd ranges_;
  bool write_ = false;  // whether ranges_ can hold write locks
  UniqueFd flock_;
};

// Returns the lock of another holder that conflicts with `range`, if the kernel reports one. Works
// through any descriptor of the file, but not for flock locks.
std::optional<wire::LockRange> TestKernelLock(int fd, const wire::LockRange& range);

}  // namespace dafs::server
