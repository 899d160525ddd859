// Calls whose caller got a signal. The kernel tells of the first signal only, and of any: a timer
// or a child's end as well as kill -9. A program whose handler runs expects its file system calls
// to be carried out all the same, as on a local disk, so EINTR is the answer only when the caller
// is being killed; a call with another signal is looked at again until it is answered.
// (nfs(5): only SIGKILL interrupts.) A call that waits for a lock ends by any signal, as fcntl(2)
// has it.
//
// Of a signal that was there before its request was sent, the kernel tells by /dev/fuse only; among
// these is the FLUSH of a process that is killed. So calls that came by io_uring and take long are
// looked at as well, but for READ and WRITE, which may be the kernel's own.
//
// Belongs to the worker's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "fuse/request/call.h"
#include "fuse/request/caller_proc.h"
#include "runtime/loop.h"

namespace dafs::fuse {

// Whether SIGKILL is pending for thread `pid`, or it is gone: what a fatal signal becomes for each
// thread of its process. False if `proc` does not show it.
bool IsBeingKilled(uint32_t pid, const CallerProc& proc);

// Whether a signal that `pid` does not block is pending for it. False if that is not known.
bool HasSignal(uint32_t pid, const CallerProc& proc);

class Interrupts {
 public:
  // How often callers with some signal are looked at again: a killed one is gone by then.
  static constexpr absl::Duration kLookAgain = absl::Milliseconds(200);

  // `killed` runs for each call that is still out when its caller has the answer, just before that.
  Interrupts(dat::Loop& loop, CallsInHand& calls, std::function<void(Call&)> killed,
             CallerProc proc = CallerProc())
      : loop_(loop), calls_(calls), killed_(std::move(killed)), proc_(std::move(proc)) {}
  ~Interrupts() { loop_.Cancel(timer_); }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // The kernel's INTERRUPT of request `unique`, which may be another worker's: nothing then.
  void Interrupt(uint64_t unique);

  // A call other than READ and WRITE came by an io_uring.
  void WatchRing() {
    watching_ = true;
    Start();
  }

 private:
  void Start();
  void LookAgain();
  void EndEarly(Call& call);

  dat::Loop& loop_;
  CallsInHand& calls_;
  const std::function<void(Call&)> killed_;
  const CallerProc proc_;
  bool watching_ = false;
  dat::Loop::TimerId timer_ = 0;
};

}  // namespace dafs::fuse
