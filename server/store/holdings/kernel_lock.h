// One lock owner's locks on one file, held in the kernel too, so that programs of the server see
// them and theirs are seen: open file descriptions of its own, one with open-file-description locks
// (fcntl, F_OFD_SETLK) for ranges, one with flock(2) for the byte that stands for it. The kernel
// drops them when they are closed.
// Not where the kernel cannot hold them: byte 2^63 and above.
// Calls for one KernelLock are serialised by the caller. Nothing waits for a lock; opening and
// locking are system calls on a local file.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "server/store/objects/object.h"
#include "server/store/system/fd.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/status.h"

namespace dafs::server {

class KernelLock {
 public:
  // Counts its descriptors in `descriptors`, which outlives it.
  explicit KernelLock(std::atomic<size_t>& descriptors) : descriptors_(descriptors) {}
  ~KernelLock();
  KernelLock(const KernelLock&) = delete;
  KernelLock& operator=(const KernelLock&) = delete;

  // Takes a range, or changes its type, by the server's own right. `held`: what this owner holds;
  // `writable`: whether he may lock for writing at all, so that it is prepared for.
  // DENIED: a program of the server holds a lock in the way. RESOURCE and others from the kernel.
  // flock(2) gives up a lock of the other type first, and does not get it back when it is denied.
  wire::DafsStatus Lock(const Object& file, const wire::LockRange& range,
                        const wire::LockRanges& held, bool writable);
  // Gives up `first` to `last`.
  void Unlock(uint64_t first, uint64_t last);
  // The descriptor that holds the ranges, to which they are no conflict; -1: none.
  int ranges_fd() const { return ranges_.get(); }

 private:
  wire::DafsStatus OpenRanges(const Object& file, bool write, const wire::LockRanges& held);
  void Keep(Fd& slot, Fd fd);

  std::atomic<size_t>& descriptors_;
  Fd ranges_;
  bool write_ = false;  // whether ranges_ can hold write locks
  Fd flock_;
};

// What stands in the way of `range`, as far as the kernel tells (not for flock), through any
// descriptor of the file.
std::optional<wire::LockRange> TestKernelLock(int fd, const wire::LockRange& range);

}  // namespace dafs::server
