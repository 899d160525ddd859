#include "fuse/request/request_room.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "fuse/kernel/protocol.h"

namespace dafs::fuse {

RequestRoom::RequestRoom(client::BufferPool& pool, Loop& loop, uint32_t write_size,
                         std::function<void()> made)
    : pool_(pool), loop_(loop), write_size_(write_size), made_(std::move(made)) {
  pool_.OnRest([this] { Rest(); });
}

RequestRoom::~RequestRoom() { pool_.OnRest(nullptr); }

void RequestRoom::Rest() {
  buffer_.Release();
  if (!starved_) apart_.reset();
}

client::BufferLease RequestRoom::TakeBuffer() {
  if (buffer_) buffer_.MarkUsed();
  return std::move(buffer_);
}

std::span<std::byte> RequestRoom::Get() {
  if (HaveBuffer()) {
    return {buffer_.payload() - kWriteHeaderBytes, kWriteHeaderBytes + buffer_.payload_bytes()};
  }
  if (!Apart()) return {};
  const size_t bytes = kWriteHeaderBytes + pool_.large_bytes();
  if (apart_ == nullptr) apart_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  return {apart_.get(), bytes};
}

bool RequestRoom::HaveBuffer() {
  if (buffer_) return true;
  if (waiting_) return false;
  buffer_ = pool_.TryAcquireToListen(write_size_);
  if (buffer_) return true;
  waiting_ = true;
  starving_ = loop_.RunAfter(kStarvedAfter, [this] {
    starving_ = 0;
    starved_ = true;
    made_();
  });
  Start(WaitForBuffer());
  return static_cast<bool>(buffer_);
}

Task<void> RequestRoom::WaitForBuffer() {
  absl::StatusOr<client::BufferLease> lease;
  for (;;) {
    lease = co_await pool_.Acquire(client::BufferUse::kWriteSource, write_size_);
    if (!lease.ok() || parked_calls_ == 0) break;
    lease->Release();  // for a parked call, which waits after this coroutine
  }
  waiting_ = false;
  starved_ = false;
  loop_.Cancel(std::exchange(starving_, 0));
  if (!lease.ok()) co_return;  // shutting down
  buffer_ = *std::move(lease);
  made_();
}

Task<client::BufferLease> RequestRoom::Park(Call& call, std::span<const std::byte> data) {
  call.parked.assign(data.begin(), data.end());
  parked_bytes_ += data.size();
  ++parked_calls_;
  absl::StatusOr<client::BufferLease> lease =
      co_await pool_.Acquire(client::BufferUse::kWriteSource, static_cast<uint32_t>(data.size()));
  --parked_calls_;
  if (!lease.ok()) {
    Unpark(call);
    co_return client::BufferLease();
  }
  std::ranges::copy(call.parked, lease->payload());  // copies nothing if Unpark was called
  Unpark(call);
  co_return *std::move(lease);
}

void RequestRoom::Unpark(Call& call) {
  if (call.parked.empty()) return;
  parked_bytes_ -= call.parked.size();
  call.parked = {};
  made_();
}

}  // namespace dafs::fuse
