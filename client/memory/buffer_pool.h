// The data buffers of one worker: a page-aligned slab, whose blocks become resident and registered
// as they are needed (buffer_blocks.h), handed out as leases.
// Spec: 3.2.1.3 (registration), 4.2.2 (direct transfers); WIRE 10.
//
// The first half of the slab holds targets of READ_DIRECT and READDIR_DIRECT and is registered for
// remote write, the second half sources of WRITE_DIRECT and is registered for remote read: the
// server can reach no buffer in a way its procedure does not need. (Two registrations of one slab
// would have given it both rights to every byte.)
//
// Blocks that nothing has used for `release_unused_after` go back to the system (ReturnBy).
//
// Written data has to be kept until it is committed (client/state/uncommitted.h). A lease whose
// content is final (Seal) can be kept itself in place of a copy; it comes back when the last who
// keeps it has let go, on any thread.
//
// A buffer is one page of header room followed by page-aligned payload: a FUSE worker reads a whole
// kernel WRITE request to `payload() - header bytes`, and the data lands aligned.
//
// Belongs to the worker's thread. Nothing here allocates after Create, except what keeps a buffer.
// Nothing blocks, except for a moment where more buffers are needed than were lately. When all
// buffers of a kind are out callers wait.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/memory/buffer_blocks.h"
#include "client/memory/exposure.h"
#include "client/memory/user_memory.h"
#include "runtime/loop.h"
#include "wire/dat/dat.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// Which half of the slab, that is, what the server may do to the buffer.
enum class BufferUse : uint8_t {
  kReadTarget,   // the server RDMA-writes it
  kWriteSource,  // the server RDMA-reads it
};

struct BufferPoolOptions {
  size_t bytes = size_t{64} << 20;    // the whole slab, header rooms included: the memory bound
  uint32_t large_bytes = 1u << 20;    // payload of a large buffer; rounded up to pages
  uint32_t small_bytes = 128u << 10;  // payload of a small one (reads only)
  // Zero: what is resident stays so.
  absl::Duration release_unused_after = absl::Seconds(60);
  bool lock_reserve = false;  // keeps one write buffer from being paged out (mlock)
  std::string name;           // "server:/export", for the log
};

class BufferPool;

namespace internal {
struct BufferWaiter;
}  // namespace internal

// One buffer, for as long as the holder wants it. Movable; gives the buffer back when destroyed.
// While a call that advertised it is still out (it was abandoned by a timeout), the buffer stays
// quarantined and returns to the pool only when the answer has come or the endpoint is dead.
class BufferLease {
 public:
  BufferLease() = default;
  BufferLease(BufferLease&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferLease& operator=(BufferLease&& other) noexcept;
  ~BufferLease() { Release(); }

  explicit operator bool() const { return buffer_ != nullptr; }
  // Page-aligned; `header_room()` bytes before it belong to the lease too.
  std::byte* payload() const;
  uint32_t payload_bytes() const;
  // The header room and the payload, as one piece.
  std::span<std::byte> whole() const;
  static size_t header_room();  // one page
  BufferUse use() const;
  // The content is final for as long as this is held or it is kept.
  void Seal();
  // What was taken to listen is used (TryAcquireToListen).
  void MarkUsed();
  void Release();

 private:
  friend class BufferPool;
  BufferLease(BufferPool* pool, internal::Buffer* buffer) : pool_(pool), buffer_(buffer) {}
  BufferPool* pool_ = nullptr;
  internal::Buffer* buffer_ = nullptr;
};

// Keeps a buffer out of the pool while the server may touch it. Held by the session's slot from
// the post of the request to its response, or to the end of the endpoint.
class BufferPin {
 public:
  BufferPin() = default;
  BufferPin(BufferPin&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferPin& operator=(BufferPin&& other) noexcept;
  ~BufferPin() { Release(); }
  void Release();

 private:
  friend class BufferPool;
  BufferPin(BufferPool* pool, internal::Buffer* buffer) : pool_(pool), buffer_(buffer) {}
  BufferPool* pool_ = nullptr;
  internal::Buffer* buffer_ = nullptr;
};

class BufferPool {
 public:
  // Maps the slab; one write buffer is resident at once. kResourceExhausted: no memory;
  // kInvalidArgument: `bytes` does not hold one large buffer of each use.
  static absl::StatusOr<std::unique_ptr<BufferPool>> Create(const BufferPoolOptions& options);
  ~BufferPool();  // every lease and pin is back
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A buffer of at least `payload_bytes` (at most the large size), the smallest class that has
  // one; an empty lease if there is none now or somebody waits already.
  BufferLease TryAcquire(BufferUse use, uint32_t payload_bytes);
  // A write buffer to read a request into that may be no write. It counts as used from MarkUsed on.
  // While no write lately needed one it is the one that is always resident.
  BufferLease TryAcquireToListen(uint32_t payload_bytes);

  // `absl::StatusOr<BufferLease> lease = co_await pool.Acquire(use, bytes);` waits its turn.
  // kCancelled after Close(); kResourceExhausted: there is no such buffer, and no memory for one.
  // The waiting coroutine must not be destroyed while it waits.
  class Acquisition;
  Acquisition Acquire(BufferUse use, uint32_t payload_bytes);

  // Where buffers that were kept come back to, and unused memory is given back, which is on the
  // thread of `loop`; nothing is kept, and nothing given back, before this. Once. `loop` outlives
  // the pool.
  void ReturnBy(dat::Loop& loop) { loop_ = &loop; }
  // `rest` runs before unused memory is looked for: a caller that holds a buffer to listen gives it
  // back. Null: it is not called any more.
  void OnRest(absl::AnyInvocable<void()> rest) { rest_ = std::move(rest); }
  // Gives back the memory of buffers that nothing has used since `now - release_unused_after`, as
  // far as it was looked for since. Returns whether there is more to be given back later.
  bool ReleaseUnused(absl::Time now);
  // Keeps the content of `lease` where it is until what is returned, and all copies of it, are
  // gone, on whatever thread that is, also behind the lease and the pool. Null: it is not sealed,
  // somebody waits for a buffer, or so many are kept that the others are needed for what is on its
  // way.
  std::shared_ptr<const void> Keep(const BufferLease& lease);
  // As many as may be are kept: what they are kept for should come to its end.
  bool KeepsMost() const { return kept_ > 0 && kept_ == most_kept_; }

  // Ends all waiting, now and later, with kCancelled.
  void Close();

  // Memory of the application, which is registered and deregistered with the slab.
  UserMemory& user_memory() { return user_memory_; }

  // Registers what is resident in the domain of a new session, and what becomes so while that
  // lasts. Slow. The regions of the session before are forgotten first: its endpoint is gone by
  // then. `access_by_windows`: it is open to the server by memory windows only
  // (Exposure::UseWindows).
  absl::Status Register(dat::Domain& domain, bool access_by_windows = false);
  // Before the domain goes.
  void Deregister();
  // How it and the memory of the application are opened to the server.
  Exposure& exposure() { return exposure_; }

  // How a peer names `size` bytes from `at` inside the lease's payload by the registration of the
  // slab, which says what the peer may do. Registered.
  wire::DirectOpBuffer Advertise(const BufferLease& lease, const std::byte* at,
                                 uint32_t size) const;
  // Opens `size` bytes from `at` inside the lease's payload to the server, and says how it names
  // them. Registered. Errors as of Exposure::Expose.
  absl::StatusOr<wire::DirectOpBuffer> Expose(const BufferLease& lease, std::byte* at,
                                              uint32_t size);
  BufferPin Pin(const BufferLease& lease);

  uint32_t large_bytes() const { return large_bytes_; }
  struct Counts {
    uint32_t total = 0;
    uint32_t leased = 0;        // with a holder
    uint32_t quarantined = 0;   // without a holder, but the server may still touch them
    uint32_t kept = 0;          // with written data that is not committed
    uint32_t waiting = 0;       // callers that wait for one
    size_t bytes = 0;           // the slab
    size_t resident_bytes = 0;  // in memory
  };
  Counts counts() const;

 private:
  friend class BufferLease;
  friend class BufferPin;

  BufferPool(std::unique_ptr<BufferBlocks> blocks, const BufferPoolOptions& sizes);
  const dat::Region& RegionOf(const BufferLease& lease) const;
  BufferLease Take(BufferUse use, uint32_t payload_bytes);
  BufferLease Lease(internal::Buffer* buffer);
  bool HasResident(BufferUse use, uint32_t payload_bytes) const;
  void DropLease(internal::Buffer* buffer);
  void DropPin(internal::Buffer* buffer);
  void GiveBackUnheld(internal::Buffer* buffer);
  void TakeReturned();
  void AwaitReturn();
  void ServeWaiters();
  bool SomebodyWaits(BufferUse use) const;
  void ReleaseLater();

  const std::unique_ptr<BufferBlocks> blocks_;
  const uint32_t large_bytes_;
  const uint32_t small_bytes_;
  const absl::Duration release_unused_after_;
  internal::BufferWaiter* first_waiter_ = nullptr;
  internal::BufferWaiter* last_waiter_ = nullptr;
  bool closed_ = false;
  bool serving_ = false;  // ServeWaiters is on the stack
  uint32_t leased_ = 0;
  uint32_t quarantined_ = 0;
  uint32_t kept_ = 0;
  uint32_t most_kept_ = 0;
  dat::Loop* loop_ = nullptr;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for what waits in the loop
  absl::AnyInvocable<void()> rest_;
  dat::Loop::TimerId release_timer_ = 0;  // while something is resident that may be given back
  Exposure exposure_;
  UserMemory user_memory_{exposure_};
};

namespace internal {
struct BufferWaiter {
  BufferUse use;
  uint32_t payload_bytes;
  std::coroutine_handle<> waiter;
  absl::Status status;
  BufferLease lease;
  BufferWaiter* next = nullptr;
};
}  // namespace internal

// The awaitable of Acquire; lives in the awaiting coroutine's frame.
class BufferPool::Acquisition {
 public:
  Acquisition(BufferPool& pool, BufferUse use, uint32_t payload_bytes) : pool_(pool) {
    node_.use = use;
    node_.payload_bytes = payload_bytes;
  }
  bool await_ready();
  void await_suspend(std::coroutine_handle<> waiter);
  absl::StatusOr<BufferLease> await_resume();

 private:
  BufferPool& pool_;
  internal::BufferWaiter node_;
};

}  // namespace dafs::client
