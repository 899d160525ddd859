#include "client/buffer_pool.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "wire/check.h"
#include "wire/status_macros.h"

namespace dafs::client {

namespace internal {
struct Buffer {
  std::byte* start = nullptr;  // of the header room
  uint32_t payload_bytes = 0;
  uint8_t free_list = 0;
  bool leased = false;
  bool sealed = false;
  uint32_t pins = 0;
  uint32_t keeps = 0;
  Buffer* next_free = nullptr;
};
}  // namespace internal

namespace {

using internal::Buffer;
using internal::BufferWaiter;

// Indexes of BufferPool::free_.
constexpr uint8_t kSmallRead = 0;
constexpr uint8_t kLargeRead = 1;
constexpr uint8_t kWrite = 2;

// How many of so many write buffers may be kept: a quarter, and four at least, are for writes that
// are on their way. With few of them none is.
uint32_t MostKept(uint32_t writes) { return writes < 8 ? 0 : writes - std::max(4u, writes / 4); }

size_t PageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

// ---- Leases and pins -------------------------------------------------------------------------

BufferLease& BufferLease::operator=(BufferLease&& other) noexcept {
  if (this != &other) {
    Release();
    pool_ = std::exchange(other.pool_, nullptr);
    buffer_ = std::exchange(other.buffer_, nullptr);
  }
  return *this;
}

void BufferLease::Seal() { buffer_->sealed = true; }

void BufferLease::Release() {
  if (buffer_ != nullptr) pool_->DropLease(std::exchange(buffer_, nullptr));
}

std::byte* BufferLease::payload() const { return buffer_->start + header_room(); }
uint32_t BufferLease::payload_bytes() const { return buffer_->payload_bytes; }
std::span<std::byte> BufferLease::whole() const {
  return {buffer_->start, header_room() + buffer_->payload_bytes};
}
size_t BufferLease::header_room() { return PageBytes(); }
BufferUse BufferLease::use() const {
  return buffer_->free_list == kWrite ? BufferUse::kWriteSource : BufferUse::kReadTarget;
}

BufferPin& BufferPin::operator=(BufferPin&& other) noexcept {
  if (this != &other) {
    Release();
    pool_ = std::exchange(other.pool_, nullptr);
    buffer_ = std::exchange(other.buffer_, nullptr);
  }
  return *this;
}

void BufferPin::Release() {
  if (buffer_ != nullptr) pool_->DropPin(std::exchange(buffer_, nullptr));
}

// ---- The pool --------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<BufferPool>> BufferPool::Create(const BufferPoolOptions& options) {
  BufferPoolOptions sizes = options;
  const size_t page = PageBytes();
  sizes.bytes = RoundUp(sizes.bytes, 2 * page);
  sizes.large_bytes = static_cast<uint32_t>(RoundUp(sizes.large_bytes, page));
  sizes.small_bytes = static_cast<uint32_t>(RoundUp(sizes.small_bytes, page));
  if (sizes.bytes / 2 < page + sizes.large_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("buffer pool of ", options.bytes,
                                                   " bytes: less than two buffers of ",
                                                   page + sizes.large_bytes));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<BufferSlab> slab, BufferSlab::Map(sizes.bytes));
  return std::unique_ptr<BufferPool>(new BufferPool(std::move(slab), sizes));
}

BufferPool::BufferPool(std::shared_ptr<BufferSlab> slab, const BufferPoolOptions& sizes)
    : slab_(std::move(slab)),
      write_part_(slab_->memory().size() / 2),
      large_bytes_(sizes.large_bytes),
      small_bytes_(sizes.small_bytes) {
  const size_t large = PageBytes() + large_bytes_;
  const size_t small = PageBytes() + small_bytes_;
  // Half of the read targets' memory in large buffers, at least one; the rest in small ones.
  size_t large_part = std::max(write_part_ / 2 / large, size_t{1}) * large;
  const auto writes = static_cast<uint32_t>(write_part_ / large);
  most_kept_ = MostKept(writes);
  // Never grown afterwards: leases point into it.
  buffers_.reserve(large_part / large + (write_part_ - large_part) / small + writes);
  const std::span<std::byte> memory = slab_->memory();
  Carve(kLargeRead, memory.first(large_part), large_bytes_);
  Carve(kSmallRead, memory.subspan(large_part, write_part_ - large_part), small_bytes_);
  Carve(kWrite, memory.subspan(write_part_), large_bytes_);
}

BufferPool::~BufferPool() {
  DAFS_CHECK(leased_ == 0 && quarantined_ == 0, "a buffer outlives its pool");
  slab_->WakeOnReturn(nullptr);
  *alive_ = false;
  Deregister();
}

void BufferPool::Carve(uint8_t free_list, std::span<std::byte> part, uint32_t payload_bytes) {
  const size_t stride = PageBytes() + payload_bytes;
  for (size_t at = 0; at + stride <= part.size(); at += stride) {
    Buffer& buffer = buffers_.emplace_back();
    buffer.start = part.data() + at;
    buffer.payload_bytes = payload_bytes;
    buffer.free_list = free_list;
    GiveBack(&buffer);
  }
}

void BufferPool::GiveBack(Buffer* buffer) {
  // Last in, first out: what was used last is in the caches and has its pages.
  buffer->next_free = free_[buffer->free_list];
  free_[buffer->free_list] = buffer;
}

BufferLease BufferPool::Take(BufferUse use, uint32_t payload_bytes) {
  DAFS_CHECK(payload_bytes <= large_bytes_, "a lease larger than a large buffer");
  if (slab_->has_returned()) TakeReturned();
  uint8_t from = kWrite;
  if (use == BufferUse::kReadTarget) {
    from = payload_bytes <= small_bytes_ && free_[kSmallRead] != nullptr ? kSmallRead : kLargeRead;
  }
  Buffer* buffer = free_[from];
  if (buffer == nullptr) return {};
  free_[from] = std::exchange(buffer->next_free, nullptr);
  buffer->leased = true;
  buffer->sealed = false;
  ++leased_;
  return BufferLease(this, buffer);
}

bool BufferPool::SomebodyWaits(BufferUse use) const {
  for (BufferWaiter* w = first_waiter_; w != nullptr; w = w->next) {
    if (w->use == use) return true;
  }
  return false;
}

BufferLease BufferPool::TryAcquire(BufferUse use, uint32_t payload_bytes) {
  if (closed_ || SomebodyWaits(use)) return {};
  return Take(use, payload_bytes);
}

BufferPool::Acquisition BufferPool::Acquire(BufferUse use, uint32_t payload_bytes) {
  return Acquisition(*this, use, payload_bytes);
}

bool BufferPool::Acquisition::await_ready() {
  if (pool_.closed_) {
    node_.status = absl::CancelledError("buffer pool closed");
    return true;
  }
  node_.lease = pool_.TryAcquire(node_.use, node_.payload_bytes);
  return static_cast<bool>(node_.lease);
}

void BufferPool::Acquisition::await_suspend(std::coroutine_handle<> waiter) {
  node_.waiter = waiter;
  if (pool_.last_waiter_ != nullptr) {
    pool_.last_waiter_->next = &node_;
  } else {
    pool_.first_waiter_ = &node_;
  }
  pool_.last_waiter_ = &node_;
  pool_.AwaitReturn();
}

absl::StatusOr<BufferLease> BufferPool::Acquisition::await_resume() {
  if (!node_.status.ok()) return node_.status;
  return std::move(node_.lease);
}

// First come, first served, for each use by itself: a large read that waits is not overtaken by
// small ones.
void BufferPool::ServeWaiters() {
  if (serving_) return;  // the loop below goes on when the resumed coroutine returns
  serving_ = true;
  for (bool again = true; again;) {
    again = false;
    bool blocked[2] = {};
    BufferWaiter* before = nullptr;
    for (BufferWaiter* w = first_waiter_; w != nullptr; before = w, w = w->next) {
      bool& use_blocked = blocked[static_cast<size_t>(w->use)];
      if (use_blocked) continue;
      if (closed_) {
        w->status = absl::CancelledError("buffer pool closed");
      } else {
        w->lease = Take(w->use, w->payload_bytes);
        if (!w->lease) {
          use_blocked = true;
          continue;
        }
      }
      (before != nullptr ? before->next : first_waiter_) = w->next;
      if (last_waiter_ == w) last_waiter_ = before;
      w->waiter.resume();  // the list may be another one now
      again = true;
      break;
    }
  }
  serving_ = false;
}

void BufferPool::Close() {
  closed_ = true;
  ServeWaiters();
}

void BufferPool::DropLease(Buffer* buffer) {
  buffer->leased = false;
  --leased_;
  if (buffer->pins > 0) ++quarantined_;
  GiveBackUnheld(buffer);
}

void BufferPool::DropPin(Buffer* buffer) {
  --buffer->pins;
  if (buffer->pins == 0 && !buffer->leased) --quarantined_;
  GiveBackUnheld(buffer);
}

void BufferPool::GiveBackUnheld(Buffer* buffer) {
  if (buffer->leased || buffer->pins > 0 || buffer->keeps > 0) return;
  GiveBack(buffer);
  ServeWaiters();
}

std::shared_ptr<const void> BufferPool::Keep(const BufferLease& lease) {
  Buffer* buffer = lease.buffer_;
  if (loop_ == nullptr || !buffer->sealed || lease.use() != BufferUse::kWriteSource) return nullptr;
  if (slab_->has_returned()) TakeReturned();
  if (buffer->keeps == 0) {
    if (kept_ >= most_kept_ || SomebodyWaits(BufferUse::kWriteSource)) return nullptr;
    ++kept_;
  }
  ++buffer->keeps;
  // What this allocates costs nothing beside the copy that it is made in place of.
  return std::shared_ptr<const void>(buffer->start,
                                     [slab = slab_, buffer](const void*) { slab->Return(buffer); });
}

void BufferPool::TakeReturned() {
  for (Buffer* buffer : slab_->TakeReturned()) {
    if (--buffer->keeps > 0) continue;
    --kept_;
    GiveBackUnheld(buffer);
  }
}

// Somebody waits: what comes back is taken then, not when the next asks.
void BufferPool::AwaitReturn() {
  if (loop_ == nullptr || kept_ == 0) return;
  slab_->WakeOnReturn([this, loop = loop_, alive = alive_] {
    loop->Post([this, alive] {
      if (!*alive) return;
      TakeReturned();
      if (first_waiter_ != nullptr) AwaitReturn();
    });
  });
}

BufferPin BufferPool::Pin(const BufferLease& lease) {
  ++lease.buffer_->pins;
  return BufferPin(this, lease.buffer_);
}

absl::Status BufferPool::Register(dat::Domain& domain, bool access_by_windows) {
  Deregister();
  const std::span<std::byte> memory = slab_->memory();
  const auto access = [&](dat::Access right) {
    return access_by_windows ? dat::Access::kWindows : right;
  };
  ASSIGN_OR_RETURN(read_region_,
                   domain.Register(memory.first(write_part_), access(dat::Access::kRemoteWrite)));
  ASSIGN_OR_RETURN(write_region_,
                   domain.Register(memory.subspan(write_part_), access(dat::Access::kRemoteRead)));
  return user_memory_.RegisterAll(domain, access_by_windows);
}

void BufferPool::Deregister() {
  exposure_.UseWindows(nullptr);
  user_memory_.DeregisterAll();
  read_region_.reset();
  write_region_.reset();
}

const dat::Region& BufferPool::RegionOf(const BufferLease& lease) const {
  const dat::Region* region =
      lease.use() == BufferUse::kReadTarget ? read_region_.get() : write_region_.get();
  DAFS_CHECK(region != nullptr, "a buffer is advertised without a session");
  return *region;
}

absl::StatusOr<wire::DirectOpBuffer> BufferPool::Expose(const BufferLease& lease, std::byte* at,
                                                        uint32_t size) {
  const dat::Access right =
      lease.use() == BufferUse::kReadTarget ? dat::Access::kRemoteWrite : dat::Access::kRemoteRead;
  return exposure_.Expose(RegionOf(lease), at, size, right);
}

wire::DirectOpBuffer BufferPool::Advertise(const BufferLease& lease, const std::byte* at,
                                           uint32_t size) const {
  return Exposure::Advertise(RegionOf(lease), at, size);
}

BufferPool::Counts BufferPool::counts() const {
  Counts counts;
  counts.total = static_cast<uint32_t>(buffers_.size());
  counts.leased = leased_;
  counts.quarantined = quarantined_;
  counts.kept = kept_;
  for (BufferWaiter* w = first_waiter_; w != nullptr; w = w->next) ++counts.waiting;
  counts.bytes = slab_->memory().size();
  return counts;
}

}  // namespace dafs::client
