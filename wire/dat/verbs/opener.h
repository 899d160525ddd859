// Threads that open the files of the RDMA stack and make system calls on them for threads that may
// not.
//
// The kernel takes a write() on /dev/infiniband/* only from a thread whose credentials are the very
// ones the file was opened with: a thread that ever took another user's identity (setfsuid,
// capset), even if it went back, gets EACCES (EPERM from siw's and rxe's doorbell). Every call of
// librdmacm writes; so does posting to software devices (but see doorbell.h). The
// threads here never change theirs. They start with the first call of Run or RunForDevices, which
// opens the first device, as whoever calls it then.
//
// Thread-safe. Owned by the provider and by every connection made from it, whichever goes last.
// Threads do not survive a fork: use the provider after the last one only.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace dafs::dat::verbs {

class Opener {
 public:
  Opener() = default;
  ~Opener();
  Opener(const Opener&) = delete;
  Opener& operator=(const Opener&) = delete;

  // Runs `call` on one of the threads. Blocks until it returned; errno is the one it left.
  void Run(absl::FunctionRef<void()> call);

  // A call that returns 0 or sets errno: here, and there if the kernel refuses this thread. Such a
  // refusal comes before anything else was done.
  int Call(absl::FunctionRef<int()> call) {
    int result = call();
    if (result != 0 && IsRefusal(errno)) Run([&] { result = call(); });
    return result;
  }

  // The same for calls by which librdmacm or libibverbs may learn of a device that is new to them,
  // all on one thread: lists of devices, binding to an address, events. librdmacm (rdma-core 44)
  // sorts devices by the lower halves of their addresses, but compares them by the whole. Of
  // different threads, malloc gives memory so far apart that these differ; when a device then goes,
  // it forgets those that stay, and its next call waits for a mutex that the call holds itself.
  // For calls that do not block.
  void RunForDevices(absl::FunctionRef<void()> call);
  int CallForDevices(absl::FunctionRef<int()> call) {
    int result = 0;
    RunForDevices([&] { result = call(); });
    return result;
  }

  // Keeps `what` until it returns true, asked a few times a second by one of the threads, or until
  // the opener goes; then drops it there. (A connection that waits for its port, for example.)
  void Park(absl::AnyInvocable<bool()> what);

  static bool IsRefusal(int error) { return error == EACCES || error == EPERM; }

  // Before the first queue is made on a siw device. libsiw (rdma-core 44) takes the mapping key
  // 0x90000, page 144 of those it hands out in order, for "no key" and fails to make the queue that
  // gets it, and from then on every other. One long queue, never used, lies over that page. Owners:
  // the domains of the device; it goes with the last, so that an unplugged device can be closed.
  std::shared_ptr<ibv_cq> CoverBadKey(ibv_context* context);

 private:
  struct Job {
    absl::FunctionRef<void()> call;
    int error = 0;
    bool done = false;
  };

  void Serve();
  void ServeDevices();
  void DoFirst(std::deque<Job*>& jobs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartThreads() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AskParked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  std::deque<Job*> jobs_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job*> device_jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::AnyInvocable<bool()>> parked_ ABSL_GUARDED_BY(mutex_);
  absl::Time ask_parked_ ABSL_GUARDED_BY(mutex_);  // when, if there are any
  std::map<ibv_context*, std::weak_ptr<ibv_cq>> covers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::dat::verbs
