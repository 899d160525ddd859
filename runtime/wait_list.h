// Coroutines that wait for something to happen, or for a time: for a session to be there, for a
// DELAY to pass. Belongs to the thread of its loop. For what is rare: a wait with a deadline costs
// a timer.
#pragma once

#include <coroutine>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/loop.h"

namespace dafs::client {

class WaitList {
 public:
  explicit WaitList(dat::Loop& loop) : loop_(loop) {}
  ~WaitList();  // nobody waits
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;

  // `absl::Status status = co_await list.Wait(deadline);` OK or what WakeAll said; at `deadline`
  // (of Loop::Now) kDeadlineExceeded. Always waits for the loop, even when the deadline is past.
  class Waiter;
  Waiter Wait(absl::Time deadline);

  // Those that wait now; each is resumed before this returns.
  void WakeAll(const absl::Status& status);
  bool empty() const { return first_ == nullptr; }

 private:
  void Add(Waiter* waiter);
  void Remove(Waiter* waiter);

  dat::Loop& loop_;
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
  uint64_t added_ = 0;
};

// Lives in the awaiting coroutine's frame.
class WaitList::Waiter {
 public:
  Waiter(WaitList& list, absl::Time deadline) : list_(list), deadline_(deadline) {}
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle);
  absl::Status await_resume() { return std::move(status_); }

 private:
  friend class WaitList;
  void Resume(absl::Status status);  // once; taken out of the list before

  WaitList& list_;
  absl::Time deadline_;
  dat::Loop::TimerId timer_ = 0;
  uint64_t number_ = 0;
  absl::Status status_;
  std::coroutine_handle<> handle_;
  Waiter* next_ = nullptr;
  Waiter* prev_ = nullptr;
};

}  // namespace dafs::client
