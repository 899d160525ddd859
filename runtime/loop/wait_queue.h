// Coroutines that wait, in order of arrival. Every queue of waiting coroutines is one of these. (An
// event that calls functions, or wakes other threads, has a list of them instead.) A waiter lives
// in the frame of its coroutine, so that no wait allocates. Nothing here is thread-safe: a queue
// and its waiters belong to one thread.
//
// The owner of a queue wakes each waiter exactly once. Waits that also end at a deadline are in
// runtime/loop/wait_list.h, at the cost of a timer for each.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"

namespace dafs {

// One wait. Derive from it to add what the coroutine waits for. Awaiting it returns the status
// given to Wake. It may be woken before it is awaited.
class Waiter {
 public:
  Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  bool await_ready() const { return woken_; }
  void await_suspend(std::coroutine_handle<> handle) { handle_ = handle; }
  absl::Status await_resume() { return std::move(status_); }

 protected:
  // For an await_ready that finds the wait to be over. Returns true.
  bool EndNow(absl::Status status) {
    status_ = std::move(status);
    return woken_ = true;
  }

 private:
  friend class WaiterLinks;
  absl::Status status_;
  std::coroutine_handle<> handle_;
  Waiter* next_ = nullptr;
  Waiter* prev_ = nullptr;
  uint64_t number_ = 0;  // counts what was added to its queue
  bool woken_ = false;
};

// The part of WaitQueue that does not depend on the type of its waiters.
class WaiterLinks {
 public:
  WaiterLinks() = default;
  ~WaiterLinks();  // no coroutine may be waiting
  WaiterLinks(const WaiterLinks&) = delete;
  WaiterLinks& operator=(const WaiterLinks&) = delete;

  bool empty() const { return first_ == nullptr; }
  size_t size() const;  // counts them
  void Add(Waiter& waiter);
  // Removes `waiter`, and resumes its coroutine before it returns. By then the waiter may be
  // destroyed, and the queue may have changed.
  void Wake(Waiter& waiter, absl::Status status);
  // Wakes all that wait now. A coroutine that waits again meanwhile is not woken again.
  void WakeAll(const absl::Status& status);

 protected:
  Waiter* first_waiter() const { return first_; }
  static Waiter* After(const Waiter& waiter) { return waiter.next_; }

 private:
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
  uint64_t added_ = 0;
};

// A queue of waiters of type `W`, which derives from Waiter.
template <class W>
class WaitQueue : public WaiterLinks {
 public:
  W* first() const { return static_cast<W*>(first_waiter()); }
  static W* Next(const W& waiter) { return static_cast<W*>(After(waiter)); }
};

}  // namespace dafs
