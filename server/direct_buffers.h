// The memory of a worker that direct transfers pass through: one slab, mapped and touched once,
// registered once per domain, handed out as page-aligned pieces of two sizes.
// Spec: 3.2.1.3 (registration), WIRE section 10; STYLE "Registered memory".
// Belongs to the worker's thread. Bounded: who finds too little waits in line.
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

namespace dafs::server {

class DirectBuffers;

// Pieces of the slab that together hold one transfer, in order. Returns them when destroyed.
class DirectLease {
 public:
  DirectLease() = default;
  DirectLease(DirectLease&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), pieces_(std::move(other.pieces_)) {
    other.pieces_.clear();
  }
  DirectLease& operator=(DirectLease&& other) noexcept {
    if (this != &other) {
      Release();
      owner_ = std::exchange(other.owner_, nullptr);
      pieces_ = std::move(other.pieces_);
      other.pieces_.clear();
    }
    return *this;
  }
  ~DirectLease() { Release(); }

  void Release();
  std::span<const std::span<std::byte>> pieces() const { return pieces_; }

 private:
  friend class DirectBuffers;
  DirectBuffers* owner_ = nullptr;
  absl::InlinedVector<std::span<std::byte>, 4> pieces_;
};

class DirectBuffers {
 public:
  static constexpr size_t kSmall = size_t{16} << 10;
  static constexpr size_t kLarge = size_t{256} << 10;

  // Maps `size_bytes`, an eighth of it for small pieces. Never less than `max_transfer_bytes`, so
  // that every transfer can be served alone. kResourceExhausted: no memory.
  static absl::StatusOr<std::unique_ptr<DirectBuffers>> Create(size_t size_bytes,
                                                               size_t max_transfer_bytes);
  ~DirectBuffers();
  DirectBuffers(const DirectBuffers&) = delete;
  DirectBuffers& operator=(const DirectBuffers&) = delete;

  std::span<std::byte> slab() const { return {slab_, slab_bytes_}; }

  // `DirectLease lease = co_await buffers.Acquire(n)`: room for `n` bytes, at most
  // max_transfer_bytes; all of it at once, first come first served, so that nobody waits while
  // holding. Nothing for 0.
  class Acquirer {
   public:
    bool await_ready();
    void await_suspend(std::coroutine_handle<> waiter);
    DirectLease await_resume() { return std::move(lease_); }

   private:
    friend class DirectBuffers;
    Acquirer(DirectBuffers& owner, size_t size_bytes) : owner_(owner), size_bytes_(size_bytes) {}
    DirectBuffers& owner_;
    size_t size_bytes_;
    DirectLease lease_;
    std::coroutine_handle<> waiter_;
  };
  Acquirer Acquire(size_t size_bytes) { return Acquirer(*this, size_bytes); }

  size_t free_bytes() const { return small_.size() * kSmall + large_.size() * kLarge; }

 private:
  friend class DirectLease;
  DirectBuffers(std::byte* slab, size_t slab_bytes, size_t small_count);

  bool TryTake(size_t size_bytes, DirectLease& lease);
  void Return(std::span<const std::span<std::byte>> pieces);
  void ServeWaiters();

  std::byte* slab_;
  size_t slab_bytes_;
  const std::byte* small_end_;  // small pieces lie below, large ones from here on
  std::vector<std::byte*> small_;
  std::vector<std::byte*> large_;
  std::deque<Acquirer*> waiting_;
  bool serving_ = false;
};

}  // namespace dafs::server
