// What a session keeps for each request that is out and each coroutine that waits. Inside the
// session only. Spec: 3.2.6.4 (credits), 5.2.1 (stream_id, seq_number).
#pragma once

#include <array>
#include <coroutine>
#include <cstdint>

#include "client/memory/exposure.h"
#include "client/session/session.h"

namespace dafs::client {

// One stream: at most one request is out on it. The slot is free again when the response has come
// and the transport is done with the send buffer.
struct Session::Slot {
  Exchange* exchange = nullptr;  // null: free, or abandoned by who waited
  CallBase* call = nullptr;
  BufferPin pin;
  MemoryHold hold;
  wire::Proc proc = wire::Proc::kNull;
  uint16_t seq_number = 0;
  uint32_t generation = 0;  // in the analyzer: tells an answer from one to an earlier request
  bool expects_answer = false;
  bool sending = false;
  // The memory windows by which the server reaches what the request names, until they are ended.
  // `ending`: of how many that was asked for; the response waits for it.
  WindowContexts windows;
  uint32_t ending = 0;
  absl::Time posted;
};

// A chain that is out; lives in the frame of RunTogether, which awaits it.
struct Session::Exchange {
  std::span<CallBase* const> chain;
  size_t unanswered = 0;
  bool damaged = false;  // an answer came with a wrong checksum
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

// A coroutine in RunTogether that needs `count` slots; first come, first served.
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
