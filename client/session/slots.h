// The state of a session's outstanding requests and waiting coroutines. Used inside the session
// only. Spec: 3.2.6.4 (credits), 5.2.1 (stream_id, seq_number).
#pragma once

#include <array>
#include <coroutine>
#include <cstdint>

#include "client/memory/exposure.h"
#include "client/session/session.h"

namespace dafs::client {

// One stream, with at most one request outstanding. The slot is free again after the response has
// arrived and the transport has released the send buffer.
struct Session::Slot {
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

// An outstanding chain. Lives in the coroutine frame of RunTogether, which awaits it.
struct Session::Exchange {
  std::span<CallBase* const> chain;
  size_t unanswered = 0;
  bool damaged = false;  // a response had a bad checksum
  bool warned = false;   // "still waiting" was logged
  bool done = false;
  absl::Status status;
  absl::Time since;
  absl::Time deadline;
  std::coroutine_handle<> waiter;
  Exchange* next = nullptr;
  Exchange* prev = nullptr;

  bool await_ready() const { return done; }
  void await_suspend(std::coroutine_handle<> handle) { waiter = handle; }
  absl::Status await_resume() { return std::move(status); }
};

// A coroutine in RunTogether that waits for `count` slots. First come, first served.
struct Session::SlotWaiter {
  Session& session;
  size_t count;
  absl::Time deadline;
  std::array<uint16_t, kMaxChain> slots{};
  absl::Status status{};
  std::coroutine_handle<> waiter{};
  SlotWaiter* next = nullptr;

  // OK: `slots` are taken. kResourceExhausted: there are fewer credits than `count`.
  bool await_ready();
  void await_suspend(std::coroutine_handle<> handle);
  absl::Status await_resume() { return std::move(status); }
};

}  // namespace dafs::client
