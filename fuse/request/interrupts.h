// Handles calls whose caller got a signal. The kernel reports only the first signal, and reports
// any signal: of a timer or a child's end as well as kill -9. A program whose handler runs expects
// its file system calls to be executed, as on a local disk. A call is therefore answered with EINTR
// only if the caller is being killed; after another signal, the caller is checked again until the
// call is answered. (nfs(5): only SIGKILL interrupts.) A call that waits for a lock ends with any
// signal, as in fcntl(2).
//
// A signal may be pending before its thread sends a request: a process that is being killed sends
// FLUSH for its open files. The kernel reports such a signal for requests on /dev/fuse, but not for
// requests by io_uring. So calls that came by io_uring and take long are checked without a report.
// READ and WRITE are not, because the kernel may send them on its own.
//
// Belongs to the worker's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "fuse/request/call.h"
#include "fuse/request/caller_proc.h"
#include "runtime/loop/loop.h"

namespace dafs::fuse {

// Whether SIGKILL is pending for thread `pid`, or the thread has ended. The kernel turns a fatal
// signal into SIGKILL for each thread of the process. Returns false if `proc` does not show `pid`.
bool IsBeingKilled(uint32_t pid, const CallerProc& proc);

// Whether a signal that `pid` does not block is pending for it. Returns false if that is unknown.
bool HasSignal(uint32_t pid, const CallerProc& proc);

class Interrupts {
 public:
  // How often callers that got a signal are checked again. A killed caller has ended by then.
  static constexpr absl::Duration kRecheckAfter = absl::Milliseconds(200);

  // Calls `killed` for each call that is answered early, just before that answer.
  Interrupts(Loop& loop, OutstandingCalls& calls, std::function<void(Call&)> killed,
             CallerProc proc = CallerProc())
      : loop_(loop), calls_(calls), killed_(std::move(killed)), proc_(std::move(proc)) {}
  ~Interrupts() { loop_.Cancel(timer_); }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Handles the kernel's INTERRUPT of request `unique`. Ignores a request of another worker.
  void Interrupt(uint64_t unique);

  // A call other than READ and WRITE arrived by io_uring.
  void WatchRing() {
    watching_ = true;
    Start();
  }

 private:
  void Start();
  void Recheck();
  void EndEarly(Call& call);

  Loop& loop_;
  OutstandingCalls& calls_;
  const std::function<void(Call&)> killed_;
  const CallerProc proc_;
  bool watching_ = false;
  Loop::TimerId timer_ = 0;
};

}  // namespace dafs::fuse
