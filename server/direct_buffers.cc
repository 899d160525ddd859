#include "server/direct_buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "wire/check.h"

namespace dafs::server {

void DirectLease::Release() {
  DirectBuffers* owner = std::exchange(owner_, nullptr);
  if (owner == nullptr) return;
  owner->Return(pieces_);
  pieces_.clear();
}

absl::StatusOr<std::unique_ptr<DirectBuffers>> DirectBuffers::Create(size_t size_bytes,
                                                                     size_t max_transfer_bytes) {
  const size_t small_count = std::max<size_t>(size_bytes / 8 / kSmall, 4);
  const size_t large_least = (max_transfer_bytes + kLarge - 1) / kLarge;
  const size_t large_count =
      std::max(size_bytes / 8 * 7 / kLarge, std::max<size_t>(large_least, 1));
  const size_t slab_bytes = small_count * kSmall + large_count * kLarge;
  // Touched now: a page fault on the data path costs more than the copy into the page.
  void* slab = mmap(nullptr, slab_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (slab == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("direct buffers: cannot map ", slab_bytes, " bytes: errno ", errno));
  }
  return std::unique_ptr<DirectBuffers>(
      new DirectBuffers(static_cast<std::byte*>(slab), slab_bytes, small_count));
}

DirectBuffers::DirectBuffers(std::byte* slab, size_t slab_bytes, size_t small_count)
    : slab_(slab), slab_bytes_(slab_bytes), small_end_(slab + small_count * kSmall) {
  std::byte* at = slab;
  for (size_t i = 0; i < small_count; ++i, at += kSmall) small_.push_back(at);
  for (; at + kLarge <= slab + slab_bytes; at += kLarge) large_.push_back(at);
}

DirectBuffers::~DirectBuffers() {
  DAFS_CHECK(waiting_.empty(), "a transfer still waits for buffers");
  munmap(slab_, slab_bytes_);
}

bool DirectBuffers::TryTake(size_t size_bytes, DirectLease& lease) {
  if (size_bytes == 0) return true;
  if (size_bytes <= kSmall && !small_.empty()) {
    lease.pieces_.push_back({small_.back(), size_bytes});
    small_.pop_back();
    lease.owner_ = this;
    return true;
  }
  const size_t count = (size_bytes + kLarge - 1) / kLarge;
  if (large_.size() < count) return false;
  for (size_t left = size_bytes; left > 0; left -= std::min(left, kLarge)) {
    lease.pieces_.push_back({large_.back(), std::min(left, kLarge)});
    large_.pop_back();
  }
  lease.owner_ = this;
  return true;
}

void DirectBuffers::Return(std::span<const std::span<std::byte>> pieces) {
  for (std::span<std::byte> piece : pieces) {
    (piece.data() < small_end_ ? small_ : large_).push_back(piece.data());
  }
  ServeWaiters();
}

void DirectBuffers::ServeWaiters() {
  // A waiter that is resumed may return pieces itself: one loop serves them all.
  if (serving_) return;
  serving_ = true;
  while (!waiting_.empty() && TryTake(waiting_.front()->size_bytes_, waiting_.front()->lease_)) {
    Acquirer* acquirer = waiting_.front();
    waiting_.pop_front();
    acquirer->waiter_.resume();
  }
  serving_ = false;
}

bool DirectBuffers::Acquirer::await_ready() {
  return owner_.waiting_.empty() && owner_.TryTake(size_bytes_, lease_);
}

void DirectBuffers::Acquirer::await_suspend(std::coroutine_handle<> waiter) {
  waiter_ = waiter;
  owner_.waiting_.push_back(this);
}

}  // namespace dafs::server
