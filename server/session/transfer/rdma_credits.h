// Limits the RDMA operations that a session has posted. Transfers wait in order of arrival.
// Spec: 3.2.3.2 (the server issues all RDMA).
// Belongs to the session's thread. Does not allocate.
#pragma once

#include <coroutine>
#include <cstdint>

#include "runtime/loop/wait_queue.h"

namespace dafs::server {

class RdmaCredits {
 public:
  explicit RdmaCredits(uint32_t count) : free_(count) {}
  RdmaCredits(const RdmaCredits&) = delete;
  RdmaCredits& operator=(const RdmaCredits&) = delete;

  // `co_await credits.Take(n)`: waits for room for n operations, at most the count of the
  // constructor. Each credit returns with the completion of its operation, or with the response
  // (Outgoing::rdma_credits).
  class Taking;
  Taking Take(uint32_t count);
  // Resumes the transfers that now have room, before it returns.
  void Return(uint32_t count);

 private:
  bool TryTake(uint32_t count);

  uint32_t free_;
  WaitQueue<Taking> line_;
};

// Lives in the awaiting coroutine's frame.
class RdmaCredits::Taking : public Waiter {
 public:
  bool await_ready() { return credits_.TryTake(count_); }
  void await_suspend(std::coroutine_handle<> handle);
  void await_resume() const noexcept {}

 private:
  friend class RdmaCredits;
  Taking(RdmaCredits& credits, uint32_t count) : credits_(credits), count_(count) {}
  RdmaCredits& credits_;
  const uint32_t count_;
};

inline RdmaCredits::Taking RdmaCredits::Take(uint32_t count) { return Taking(*this, count); }

// RDMA operations with completions, awaited together. Each is posted with the address of an
// RdmaWork as its cookie. Lives in the awaiting coroutine.
struct RdmaWork {
  uint32_t pending = 0;
  bool failed = false;
  std::coroutine_handle<> waiter;
  // An operation has completed. Resumes the waiter after the last one; `this` may then be gone.
  void Completed(bool ok);
  bool await_ready() const noexcept { return pending == 0; }
  void await_suspend(std::coroutine_handle<> w) noexcept { waiter = w; }
  bool await_resume() const noexcept { return !failed; }  // true if all succeeded
};

}  // namespace dafs::server
