// The data buffers of one worker: a page-aligned slab, handed out as leases. Its blocks become
// resident and registered when they are needed (buffer_blocks.h).
// Spec: 3.2.1.3 (registration), 4.2.2 (direct transfers); WIRE 10.
//
// The first half of the slab holds targets of READ_DIRECT and READDIR_DIRECT and is registered for
// remote write. The second half holds sources of WRITE_DIRECT and is registered for remote read. So
// the server has no access to a buffer beyond what its procedure needs. (Two registrations of one
// slab would give it both rights to every byte.)
//
// Blocks that were not used for `release_unused_after` return to the system (ReturnBy).
//
// The client keeps written data until it is committed (client/state/data/uncommitted.h). Instead of
// a copy it can keep a lease whose content is final (Seal). The buffer returns to the pool when its
// last keeper has released it, on any thread.
//
// A buffer is one page of header room followed by page-aligned payload. A FUSE worker reads a whole
// kernel WRITE request to `payload() - header bytes`, so that the data is aligned.
//
// Belongs to the worker's thread. After Create nothing allocates, except Keep. Nothing blocks,
// except shortly when more buffers are needed than recently. While all buffers of a kind are in
// use, callers wait.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <functional>
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
#include "client/memory/remote_access.h"
#include "client/memory/user_memory.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/wait_queue.h"
#include "wire/dat/dat.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// Which half of the slab: what the server may do to the buffer.
enum class BufferUse : uint8_t {
  kReadTarget,   // the server RDMA-writes it
  kWriteSource,  // the server RDMA-reads it
};

struct BufferPoolOptions {
  size_t bytes = size_t{64} << 20;    // the whole slab with header rooms: the memory limit
  uint32_t large_bytes = 1u << 20;    // payload of a large buffer; rounded up to pages
  uint32_t small_bytes = 128u << 10;  // payload of a small one (reads only)
  // Zero: resident memory is not released.
  absl::Duration release_unused_after = absl::Seconds(60);
  bool keeps_reserve = true;  // one write buffer is resident from the start
  bool lock_reserve = false;  // keeps it from being paged out (mlock)
  std::string name;           // "server:/export", for the log
  // Returns that number of bytes, aligned to a page, for the write buffers; they outlive the pool,
  // and are shared memory. If it is empty or returns none, all buffers are in one slab.
  std::function<std::span<std::byte>(size_t)> write_memory;
};

class BufferPool;

// One buffer, for as long as the holder needs it. Movable; returns the buffer when destroyed. If a
// call that advertised it is still outstanding (it was abandoned by a timeout), the buffer is
// quarantined: it returns to the pool only after the reply, or once the endpoint is dead.
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
  // The header room and the payload together.
  std::span<std::byte> whole() const;
  static size_t header_room();  // one page
  BufferUse use() const;
  // The content is final until the lease is released and nothing keeps it.
  void Seal();
  // The buffer from TryAcquireToListen is now used.
  void MarkUsed();
  void Release();

 private:
  friend class BufferPool;
  BufferLease(BufferPool* pool, internal::Buffer* buffer) : pool_(pool), buffer_(buffer) {}
  BufferPool* pool_ = nullptr;
  internal::Buffer* buffer_ = nullptr;
};

// Keeps a buffer out of the pool while the server may access it. The session's slot holds it from
// the post of the request until its response, or until the endpoint ends.
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
  // Maps the slab; one write buffer is resident from now on. kResourceExhausted: no memory;
  // kInvalidArgument: `bytes` is less than one large buffer of each use.
  static absl::StatusOr<std::unique_ptr<BufferPool>> Create(const BufferPoolOptions& options);
  ~BufferPool();  // after every lease and pin was released
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Returns a buffer of at least `payload_bytes` (at most the large size), of the smallest class
  // with a free buffer. An empty lease if none is free, or callers are already waiting.
  BufferLease TryAcquire(BufferUse use, uint32_t payload_bytes);
  // Returns a write buffer into which to read a request that may not be a write. It counts as used
  // after MarkUsed. While no write needed one recently, it is the reserve, which is always
  // resident.
  BufferLease TryAcquireToListen(uint32_t payload_bytes);

  // `absl::StatusOr<BufferLease> lease = co_await pool.Acquire(use, bytes);` waits its turn.
  // kCancelled after Close(); kResourceExhausted: no such buffer is resident, and there is no
  // memory for one. The waiting coroutine must not be destroyed while it waits.
  class Acquisition;
  Acquisition Acquire(BufferUse use, uint32_t payload_bytes);

  // Kept buffers return, and unused memory is released, on the thread of `loop`. Before this call
  // neither happens: Keep returns null. Call once. `loop` outlives the pool.
  void ReturnBy(Loop& loop) { loop_ = &loop; }
  // Calls `rest` before each check for unused memory: a caller that holds a buffer from
  // TryAcquireToListen can return it. Null: no more calls.
  void OnRest(absl::AnyInvocable<void()> rest) { rest_ = std::move(rest); }
  // Releases the memory of buffers that were unused since `now - release_unused_after`, as far as
  // earlier calls observed that. Returns whether more may be released later.
  bool ReleaseUnused(absl::Time now);
  // Keeps the content of `lease` in place until all copies of the returned pointer are gone. They
  // may be released on any thread, also after the lease and the pool. Null: it is not sealed, it is
  // the reserve, a caller waits for a buffer, or the limit on kept buffers is reached (the others
  // are for writes in progress).
  std::shared_ptr<const void> Keep(const BufferLease& lease);
  // The limit on kept buffers is reached: their holders should commit and release them.
  bool KeepsMost() const { return kept_ > 0 && kept_ == most_kept_; }

  // Ends all waits, present and future, with kCancelled.
  void Close();

  // Memory of the application; registered and deregistered with the slab.
  UserMemory& user_memory() { return user_memory_; }

  // Registers the resident blocks in the domain of a new session, and those that become resident
  // during it. Slow. First drops the regions of the previous session, whose endpoint must be gone.
  // `access_by_windows`: the server accesses the memory by memory windows only
  // (RemoteAccess::UseWindows).
  absl::Status Register(dat::Domain& domain, bool access_by_windows = false);
  // Call before the domain ends.
  void Deregister();
  // How the slab and the memory of the application are opened to the server.
  RemoteAccess& remote_access() { return remote_access_; }

  // Returns the peer's name for `size` bytes from `at` inside the lease's payload, by the
  // registration of the slab, which limits what the peer may do. Call while registered.
  wire::DirectOpBuffer Advertise(const BufferLease& lease, const std::byte* at,
                                 uint32_t size) const;
  // Opens `size` bytes from `at` inside the lease's payload to the server. Returns the server's
  // name for them. Call while registered. Errors as of RemoteAccess::Expose.
  absl::StatusOr<wire::DirectOpBuffer> Expose(const BufferLease& lease, std::byte* at,
                                              uint32_t size);
  BufferPin Pin(const BufferLease& lease);

  uint32_t large_bytes() const { return large_bytes_; }
  struct Counts {
    uint32_t total = 0;
    uint32_t leased = 0;       // held by a lease
    uint32_t quarantined = 0;  // without a lease, but the server may still access them
    uint32_t kept = 0;         // with written data that is not committed
    uint32_t waiting = 0;      // callers that wait for a buffer
    uint64_t waits = 0;        // callers that have waited so far, and how long in total
    absl::Duration wait_time;
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
  Acquisition* NextServed();
  bool SomebodyWaits(BufferUse use) const;
  void ReleaseLater();

  const std::unique_ptr<BufferBlocks> blocks_;
  const uint32_t large_bytes_;
  const uint32_t small_bytes_;
  const absl::Duration release_unused_after_;
  WaitQueue<Acquisition> waiters_;
  bool closed_ = false;
  bool serving_ = false;  // ServeWaiters is on the stack
  uint32_t leased_ = 0;
  uint32_t quarantined_ = 0;
  uint32_t kept_ = 0;
  uint32_t most_kept_ = 0;
  uint64_t waits_ = 0;
  absl::Duration wait_time_;
  Loop* loop_ = nullptr;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for callbacks in the loop
  absl::AnyInvocable<void()> rest_;
  Loop::TimerId release_timer_ = 0;  // set while memory is resident that may be released
  RemoteAccess remote_access_;
  UserMemory user_memory_{remote_access_};
};

// The awaitable of Acquire; lives in the awaiting coroutine's frame.
class BufferPool::Acquisition : public Waiter {
 public:
  Acquisition(BufferPool& pool, BufferUse use, uint32_t payload_bytes)
      : pool_(pool), use_(use), payload_bytes_(payload_bytes) {}
  bool await_ready();
  void await_suspend(std::coroutine_handle<> waiter);
  absl::StatusOr<BufferLease> await_resume();

 private:
  friend class BufferPool;
  BufferPool& pool_;
  const BufferUse use_;
  const uint32_t payload_bytes_;
  absl::Time since_ = absl::InfinitePast();  // when it began to wait
  BufferLease lease_;
};

}  // namespace dafs::client
