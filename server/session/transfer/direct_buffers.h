// The memory of a worker for direct transfers: one slab, mapped and touched once, registered once
// per domain, handed out as page-aligned pieces of two sizes.
// Spec: 3.2.1.3 (registration), WIRE section 10; docs/decisions.md, Memory.
//
// Belongs to the worker's thread. Bounded: a transfer that finds too little memory waits in line.
// The share of one session is bounded too, so that a peer that stalls leaves room for other
// sessions. Transfers of exports that may hang hold at most half of the memory together.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "runtime/loop/wait_queue.h"

namespace dafs::server {

class DirectAcquirer;
class DirectBuffers;

// The pieces of either size that one session holds, and its transfers that wait for pieces, in
// order. Outlives them. A session has one share for exports that may hang and one for the others.
class DirectShare {
 public:
  explicit DirectShare(bool may_hang = false) : may_hang_(may_hang) {}

 private:
  friend class DirectBuffers;
  struct Part {
    size_t held = 0;
    WaitQueue<DirectAcquirer> waiting;
  };
  const bool may_hang_;
  Part small_;
  Part large_;
};

// Pieces of the slab that together hold one transfer, in order. The destructor returns them.
class DirectLease {
 public:
  DirectLease() = default;
  DirectLease(DirectLease&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        share_(other.share_),
        pieces_(std::move(other.pieces_)) {
    other.pieces_.clear();
  }
  DirectLease& operator=(DirectLease&& other) noexcept {
    if (this != &other) {
      Release();
      owner_ = std::exchange(other.owner_, nullptr);
      share_ = other.share_;
      pieces_ = std::move(other.pieces_);
      other.pieces_.clear();
    }
    return *this;
  }
  ~DirectLease() { Release(); }

  void Release();
  std::span<const std::span<std::byte>> pieces() const { return pieces_; }
  size_t size_bytes() const;  // of all pieces; at least the size that was acquired

 private:
  friend class DirectBuffers;
  DirectBuffers* owner_ = nullptr;
  DirectShare* share_ = nullptr;
  absl::InlinedVector<std::span<std::byte>, 4> pieces_;
};

class DirectBuffers {
 public:
  static constexpr size_t kSmall = size_t{16} << 10;
  static constexpr size_t kLarge = size_t{256} << 10;

  // Maps `size_bytes`; an eighth becomes small pieces. Maps at least twice `max_transfer_bytes`, so
  // that every transfer fits alone, also beside one of an export that hangs. kResourceExhausted: no
  // memory.
  static absl::StatusOr<std::unique_ptr<DirectBuffers>> Create(size_t size_bytes,
                                                               size_t max_transfer_bytes);
  ~DirectBuffers();
  DirectBuffers(const DirectBuffers&) = delete;
  DirectBuffers& operator=(const DirectBuffers&) = delete;

  std::span<std::byte> slab() const { return {slab_, slab_bytes_}; }

  // `DirectLease lease = co_await buffers.Acquire(share, n)`: acquires room for `n` bytes, at most
  // max_transfer_bytes. Acquires all of it at once, so that no transfer waits while it holds
  // memory. The lease of 0 bytes is empty.
  DirectAcquirer Acquire(DirectShare& share, size_t size_bytes);

  size_t free_bytes() const { return small_.free.size() * kSmall + large_.free.size() * kLarge; }

 private:
  friend class DirectAcquirer;
  friend class DirectLease;

  // The pieces of one size, and the sessions that wait for some, one entry each.
  struct Pieces {
    const size_t size_bytes;
    DirectShare::Part DirectShare::*const part;
    std::vector<std::byte*> free = {};
    size_t most_hanging = 0;  // limit of `hanging`
    size_t hanging = 0;
    std::deque<DirectShare*> line = {};
    bool serving = false;
  };

  DirectBuffers(std::byte* slab, size_t slab_bytes, size_t small_count);

  static size_t CountOf(const Pieces& pieces, size_t size_bytes) {
    return (size_bytes + pieces.size_bytes - 1) / pieces.size_bytes;
  }
  static bool WaitsForHanging(const Pieces& pieces, const DirectShare& share);
  bool TryTake(Pieces& pieces, DirectShare& share, size_t size_bytes, DirectLease& lease);
  bool TryTakeNow(Pieces& pieces, DirectShare& share, size_t size_bytes, DirectLease& lease);
  bool TryTakeNow(DirectAcquirer& acquirer);
  void Wait(DirectAcquirer& acquirer);
  void Return(DirectShare& share, std::span<const std::span<std::byte>> pieces);
  void Serve(Pieces& pieces);
  Pieces& PiecesFor(size_t size_bytes) { return size_bytes <= kSmall ? small_ : large_; }

  std::byte* slab_;
  size_t slab_bytes_;
  const std::byte* small_end_;  // small pieces lie below, large ones from here on
  Pieces small_{.size_bytes = kSmall, .part = &DirectShare::small_};
  Pieces large_{.size_bytes = kLarge, .part = &DirectShare::large_};
};

// The awaitable of Acquire; lives in the awaiting coroutine's frame.
class DirectAcquirer : public Waiter {
 public:
  bool await_ready() { return owner_.TryTakeNow(*this); }
  void await_suspend(std::coroutine_handle<> handle) {
    Waiter::await_suspend(handle);
    owner_.Wait(*this);
  }
  DirectLease await_resume() { return std::move(lease_); }

 private:
  friend class DirectBuffers;
  DirectAcquirer(DirectBuffers& owner, DirectShare& share, size_t size_bytes)
      : owner_(owner), share_(share), size_bytes_(size_bytes) {}
  DirectBuffers& owner_;
  DirectShare& share_;
  const size_t size_bytes_;
  DirectLease lease_;
};

inline DirectAcquirer DirectBuffers::Acquire(DirectShare& share, size_t size_bytes) {
  return DirectAcquirer(*this, share, size_bytes);
}

}  // namespace dafs::server
