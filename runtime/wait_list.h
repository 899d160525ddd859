// A list of coroutines that wait for an event or until a deadline: for a session, or for the end of
// a DELAY. Belongs to the thread of its loop. Meant for rare waits, because a wait with a deadline
// costs a timer.
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
  ~WaitList();  // no coroutine may be waiting
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;

  // `absl::Status status = co_await list.Wait(deadline);` returns OK or the status given to
  // WakeAll. Returns kDeadlineExceeded at `deadline` (a time of Loop::Now). Always suspends, even
  // if the deadline is past.
  class Waiter;
  Waiter Wait(absl::Time deadline);

  // Resumes all coroutines that wait now, before it returns.
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
  void Resume(absl::Status status);  // called once, after removal from the list

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
