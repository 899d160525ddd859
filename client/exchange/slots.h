// The request slots of a session. A request needs one, and no more are taken than the server has
// granted credits. Coroutines wait for slots in order of arrival.
// Spec: 3.2.6.4 (flow control), 5.2.1 (stream_id, seq_number); WIRE 11.5.
//
// Belongs to the thread of the session's loop. Only the constructor allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/exchange/call.h"
#include "client/exchange/credits.h"
#include "client/exchange/exchange.h"
#include "client/memory/buffer_pool.h"
#include "client/memory/memory_use.h"
#include "client/memory/remote_access.h"
#include "runtime/loop/wait_queue.h"
#include "wire/dat/address.h"
#include "wire/protocol/header.h"
#include "wire/protocol/procedures.h"

namespace dafs::client {

// One stream, with at most one request outstanding. The slot is free again after the response has
// arrived and the transport has released the send buffer.
struct Slot {
  Exchange* exchange = nullptr;  // null: free, or the waiter has given up
  CallBase* call = nullptr;
  BufferPin pin;
  MemoryHold hold;
  wire::Proc proc = wire::Proc::kNull;
  uint16_t seq_number = 0;
  // Part of the analyzer: a late response to an earlier request has another one.
  uint32_t generation = 0;
  bool expects_answer = false;
  bool sending = false;
  // Memory windows through which the server accesses the request's buffers, until they are
  // invalidated. `ending`: how many invalidations are outstanding; the response waits for them.
  WindowContexts windows;
  uint32_t ending = 0;
  absl::Time posted;
};

class Slots {
 public:
  // `peer` is for messages and must outlive this.
  Slots(size_t count, const dat::Address& peer);
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  size_t size() const { return slots_.size(); }
  Slot& operator[](size_t index) { return slots_[index]; }
  uint16_t IndexOf(const Slot& slot) const { return static_cast<uint16_t>(&slot - slots_.data()); }
  std::span<Slot> all() { return slots_; }

  // Takes `count` slots, at most kMaxChain: `status = co_await taking;`. OK: `indices` are taken.
  // kResourceExhausted: there are fewer credits than `count`. Other errors: see EndOverdue and End.
  class Taking;
  // Whether a Taking of `count` slots would wait.
  bool MustWait(size_t count) const;
  // Lets the first waiter have its slots, and resumes it. Returns false if there are too few free,
  // or no waiter.
  bool ServeFirst();
  // Ends waits whose deadline is reached with kDeadlineExceeded.
  void EndOverdue(absl::Time now);
  // Ends all waits with `why`.
  void End(const absl::Status& why) { waiting_.WakeAll(why); }
  // Frees the slot, unless it still expects an answer or is being sent.
  void Release(Slot& slot);
  // Drops all requests when the connection has ended.
  void Clear();

  // The request that `header` answers. kDataLoss: there is none. Spec: 6.1.3.
  absl::StatusOr<Slot*> Match(const wire::ResponseHeader& header);

  Credits& credits() { return credits_; }
  const Credits& credits() const { return credits_; }
  // The credits that a request asks the server for; 0: the client has enough.
  uint16_t desired_nreq() const {
    return credits_.wants_more() ? static_cast<uint16_t>(size()) : uint16_t{0};
  }

  uint32_t taken() const { return taken_; }
  size_t waiting() const { return waiting_.size(); }
  bool has_waiters() const { return !waiting_.empty(); }

 private:
  uint32_t Capacity() const;
  bool CanTake(size_t count) const { return taken_ + count <= Capacity(); }
  void Take(std::span<uint16_t> indices);

  const dat::Address& peer_;
  std::vector<Slot> slots_;
  std::vector<uint64_t> free_;  // bit i: slot i is free
  uint32_t taken_ = 0;
  Credits credits_;
  WaitQueue<Taking> waiting_;
};

// Lives in the awaiting coroutine's frame.
class Slots::Taking : public Waiter {
 public:
  Taking(Slots& slots, size_t count, absl::Time deadline)
      : slots_(slots), count_(count), deadline_(deadline) {}
  bool await_ready();
  void await_suspend(std::coroutine_handle<> handle);

  std::span<const uint16_t> indices() const { return std::span(indices_).first(count_); }

 private:
  friend class Slots;
  void Take() { slots_.Take(std::span(indices_).first(count_)); }

  Slots& slots_;
  const size_t count_;
  const absl::Time deadline_;
  std::array<uint16_t, kMaxChain> indices_{};
};

}  // namespace dafs::client
