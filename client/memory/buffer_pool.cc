#include "client/memory/buffer_pool.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/memory/pages.h"
#include "runtime/check.h"
#include "runtime/status_macros.h"

namespace dafs::client {

namespace {

using internal::Buffer;
using internal::BufferKind;

// Checks for unused memory during `release_unused_after`.
constexpr int kLooks = 4;

// How many of `writes` write buffers may be kept. A quarter, and at least four, stay free for
// writes in progress. If there are fewer than eight, none may be kept.
uint32_t MostKept(uint32_t writes) { return writes < 8 ? 0 : writes - std::max(4u, writes / 4); }

absl::Status Closed() { return absl::CancelledError("buffer pool closed"); }

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
void BufferLease::MarkUsed() { BufferBlocks::MarkUsed(*buffer_); }

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
  return buffer_->block->kind == BufferKind::kWrite ? BufferUse::kWriteSource
                                                    : BufferUse::kReadTarget;
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
  sizes.large_bytes = static_cast<uint32_t>(RoundUp(sizes.large_bytes, page));
  sizes.small_bytes = static_cast<uint32_t>(RoundUp(sizes.small_bytes, page));
  if (sizes.bytes / 2 < page + sizes.large_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("buffer pool of ", options.bytes,
                                                   " bytes: less than two buffers of ",
                                                   page + sizes.large_bytes));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<BufferBlocks> blocks,
                   BufferBlocks::Create({.bytes = sizes.bytes,
                                         .large_bytes = sizes.large_bytes,
                                         .small_bytes = sizes.small_bytes,
                                         .keeps_reserve = sizes.keeps_reserve,
                                         .lock_reserve = sizes.lock_reserve,
                                         .name = sizes.name,
                                         .write_memory = sizes.write_memory}));
  return std::unique_ptr<BufferPool>(new BufferPool(std::move(blocks), sizes));
}

BufferPool::BufferPool(std::unique_ptr<BufferBlocks> blocks, const BufferPoolOptions& sizes)
    : blocks_(std::move(blocks)),
      large_bytes_(sizes.large_bytes),
      small_bytes_(sizes.small_bytes),
      release_unused_after_(sizes.release_unused_after),
      most_kept_(MostKept(blocks_->write_buffers())) {}

BufferPool::~BufferPool() {
  DAFS_CHECK(leased_ == 0 && quarantined_ == 0, "a buffer outlives its pool");
  blocks_->slab().WakeOnReturn(nullptr);
  *alive_ = false;
  Deregister();
}

BufferLease BufferPool::Take(BufferUse use, uint32_t payload_bytes) {
  DAFS_CHECK(payload_bytes <= large_bytes_, "a lease larger than a large buffer");
  if (blocks_->slab().has_returned()) TakeReturned();
  if (use == BufferUse::kWriteSource) return Lease(blocks_->Take(BufferKind::kWrite));
  Buffer* buffer = payload_bytes <= small_bytes_ ? blocks_->Take(BufferKind::kSmallRead) : nullptr;
  return Lease(buffer != nullptr ? buffer : blocks_->Take(BufferKind::kLargeRead));
}

BufferLease BufferPool::Lease(Buffer* buffer) {
  if (buffer == nullptr) return {};
  buffer->leased = true;
  buffer->sealed = false;
  ++leased_;
  if (release_timer_ == 0) ReleaseLater();
  return BufferLease(this, buffer);
}

bool BufferPool::HasResident(BufferUse use, uint32_t payload_bytes) const {
  if (use == BufferUse::kWriteSource) return true;
  return blocks_->HasResident(BufferKind::kLargeRead) ||
         (payload_bytes <= small_bytes_ && blocks_->HasResident(BufferKind::kSmallRead));
}

void BufferPool::ReleaseLater() {
  if (loop_ == nullptr || closed_ || release_unused_after_ == absl::ZeroDuration()) return;
  if (release_timer_ != 0 || !blocks_->AnyResident()) return;
  release_timer_ = loop_->RunAfter(release_unused_after_ / kLooks, [this, alive = alive_] {
    if (!*alive) return;
    release_timer_ = 0;
    if (rest_ != nullptr) rest_();
    if (ReleaseUnused(Loop::Now())) ReleaseLater();
  });
}

bool BufferPool::ReleaseUnused(absl::Time now) {
  if (blocks_->slab().has_returned()) TakeReturned();
  return blocks_->ReleaseUnused(now, release_unused_after_);
}

bool BufferPool::SomebodyWaits(BufferUse use) const {
  for (const Acquisition* w = waiters_.first(); w != nullptr; w = waiters_.Next(*w)) {
    if (w->use_ == use) return true;
  }
  return false;
}

BufferLease BufferPool::TryAcquire(BufferUse use, uint32_t payload_bytes) {
  if (closed_ || SomebodyWaits(use)) return {};
  return Take(use, payload_bytes);
}

BufferLease BufferPool::TryAcquireToListen(uint32_t payload_bytes) {
  DAFS_CHECK(payload_bytes <= large_bytes_, "a lease larger than a large buffer");
  if (closed_ || SomebodyWaits(BufferUse::kWriteSource)) return {};
  if (blocks_->slab().has_returned()) TakeReturned();
  return Lease(blocks_->TakeToListen());
}

BufferPool::Acquisition BufferPool::Acquire(BufferUse use, uint32_t payload_bytes) {
  return Acquisition(*this, use, payload_bytes);
}

bool BufferPool::Acquisition::await_ready() {
  if (pool_.closed_) return EndNow(Closed());
  lease_ = pool_.TryAcquire(use_, payload_bytes_);
  if (lease_) return true;
  if (pool_.HasResident(use_, payload_bytes_)) return false;
  return EndNow(pool_.blocks_->why_not());
}

void BufferPool::Acquisition::await_suspend(std::coroutine_handle<> waiter) {
  Waiter::await_suspend(waiter);
  since_ = Loop::Now();
  ++pool_.waits_;
  pool_.waiters_.Add(*this);
  pool_.AwaitReturn();
}

absl::StatusOr<BufferLease> BufferPool::Acquisition::await_resume() {
  absl::Status status = Waiter::await_resume();
  if (since_ != absl::InfinitePast()) pool_.wait_time_ += Loop::Now() - since_;
  if (!status.ok()) return status;
  return std::move(lease_);
}

void BufferPool::ServeWaiters() {
  if (serving_) return;  // the loop below continues when the resumed coroutine returns
  serving_ = true;
  while (Acquisition* next = NextServed()) {
    waiters_.Wake(*next, closed_ ? Closed() : absl::OkStatus());
  }
  serving_ = false;
}

// Returns the first waiter whose wait can end, with its buffer if the pool is open. First come,
// first served, separately for each use: small reads do not overtake a large read that waits.
BufferPool::Acquisition* BufferPool::NextServed() {
  bool blocked[2] = {};
  for (Acquisition* w = waiters_.first(); w != nullptr; w = waiters_.Next(*w)) {
    bool& use_blocked = blocked[static_cast<size_t>(w->use_)];
    if (closed_) return w;
    if (use_blocked) continue;
    w->lease_ = Take(w->use_, w->payload_bytes_);
    if (w->lease_) return w;
    use_blocked = true;
  }
  return nullptr;
}

void BufferPool::Close() {
  closed_ = true;
  rest_ = nullptr;
  if (release_timer_ != 0) loop_->Cancel(std::exchange(release_timer_, 0));
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
  blocks_->GiveBack(*buffer);
  ServeWaiters();
}

std::shared_ptr<const void> BufferPool::Keep(const BufferLease& lease) {
  Buffer* buffer = lease.buffer_;
  if (loop_ == nullptr || !buffer->sealed || lease.use() != BufferUse::kWriteSource) return nullptr;
  if (buffer->block->reserve) {  // it must be free again when memory is short
    blocks_->WantMoreThanReserve();
    return nullptr;
  }
  if (blocks_->slab().has_returned()) TakeReturned();
  if (buffer->keeps == 0) {
    if (kept_ >= most_kept_ || SomebodyWaits(BufferUse::kWriteSource)) return nullptr;
    ++kept_;
  }
  ++buffer->keeps;
  // This allocates, which costs little beside the copy that it saves.
  return std::shared_ptr<const void>(buffer->start, [slab = blocks_->shared_slab(), buffer](
                                                        const void*) { slab->Return(buffer); });
}

void BufferPool::TakeReturned() {
  for (Buffer* buffer : blocks_->slab().TakeReturned()) {
    if (--buffer->keeps > 0) continue;
    --kept_;
    GiveBackUnheld(buffer);
  }
}

// A caller waits: take the next returned buffer at once, not at the next request.
void BufferPool::AwaitReturn() {
  if (loop_ == nullptr || kept_ == 0) return;
  blocks_->slab().WakeOnReturn([this, loop = loop_, alive = alive_] {
    loop->Post([this, alive] {
      if (!*alive) return;
      TakeReturned();
      if (!waiters_.empty()) AwaitReturn();
    });
  });
}

BufferPin BufferPool::Pin(const BufferLease& lease) {
  ++lease.buffer_->pins;
  return BufferPin(this, lease.buffer_);
}

absl::Status BufferPool::Register(dat::Domain& domain, bool access_by_windows) {
  Deregister();
  RETURN_IF_ERROR(blocks_->Register(domain, access_by_windows));
  return user_memory_.RegisterAll(domain, access_by_windows);
}

void BufferPool::Deregister() {
  remote_access_.UseWindows(nullptr);
  user_memory_.DeregisterAll();
  blocks_->Deregister();
}

const dat::Region& BufferPool::RegionOf(const BufferLease& lease) const {
  const dat::Region* region = lease.buffer_->block->region.get();
  DAFS_CHECK(region != nullptr, "a buffer is advertised without a session");
  return *region;
}

absl::StatusOr<wire::DirectOpBuffer> BufferPool::Expose(const BufferLease& lease, std::byte* at,
                                                        uint32_t size) {
  const dat::Access right =
      lease.use() == BufferUse::kReadTarget ? dat::Access::kRemoteWrite : dat::Access::kRemoteRead;
  return remote_access_.Expose(RegionOf(lease), at, size, right);
}

wire::DirectOpBuffer BufferPool::Advertise(const BufferLease& lease, const std::byte* at,
                                           uint32_t size) const {
  return RemoteAccess::Advertise(RegionOf(lease), at, size);
}

BufferPool::Counts BufferPool::counts() const {
  Counts counts;
  counts.total = blocks_->buffers();
  counts.leased = leased_;
  counts.quarantined = quarantined_;
  counts.kept = kept_;
  counts.waiting = static_cast<uint32_t>(waiters_.size());
  counts.waits = waits_;
  counts.wait_time = wait_time_;
  counts.bytes = blocks_->bytes();
  counts.resident_bytes = blocks_->resident_bytes();
  return counts;
}

}  // namespace dafs::client
