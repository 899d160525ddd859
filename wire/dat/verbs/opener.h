// Threads that open the files of the RDMA stack and make system calls on them for threads that may
// not.
//
// The kernel accepts a write() on /dev/infiniband/* only from a thread with exactly the credentials
// that opened the file. A thread that ever changed to another user's identity (setfsuid, capset)
// gets EACCES (EPERM from the doorbell of siw and rxe), even after it changed back. Every call of
// librdmacm writes; so does posting to software devices (but see doorbell.h).
//
// The threads here never change their identity. They start at the first call of Run or
// RunForDevices, which opens the first device, and have the credentials of its caller.
//
// Thread-safe. The provider and every connection made from it own it; the last of them destroys it.
// Threads do not survive a fork: use the provider only after the last fork.
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

  // Runs `call` on one of the threads. Blocks until it has returned. errno is the value that `call`
  // left.
  void Run(absl::FunctionRef<void()> call);

  // Runs a call that returns 0 or sets errno on this thread, and on one of the threads if the
  // kernel refuses this thread. The kernel refuses before the call has any effect.
  int Call(absl::FunctionRef<int()> call) {
    int result = call();
    if (result != 0 && IsRefusal(errno)) Run([&] { result = call(); });
    return result;
  }

  // Like Run and Call, but always on one thread, the same for all such calls. Use them for calls by
  // which librdmacm or libibverbs may learn of a new device: lists of devices, binding to an
  // address, events.
  //
  // The reason: librdmacm (rdma-core 44) sorts devices by the lower halves of their addresses, but
  // compares the whole addresses. malloc gives different threads memory so far apart that the upper
  // halves differ. When a device is then removed, librdmacm loses the remaining devices, and its
  // next call waits for a mutex that the call itself holds. `call` must not block.
  void RunForDevices(absl::FunctionRef<void()> call);
  int CallForDevices(absl::FunctionRef<int()> call) {
    int result = 0;
    RunForDevices([&] { result = call(); });
    return result;
  }

  // Keeps `what` and calls it a few times a second, on one of the threads, until it returns true or
  // the opener is destroyed. Then destroys `what` on that thread. (An example is a connection that
  // waits for its port.)
  void Park(absl::AnyInvocable<bool()> what);

  static bool IsRefusal(int error) { return error == EACCES || error == EPERM; }

  // Call before making the first queue on a siw device. libsiw (rdma-core 44) hands out mapping
  // keys in page order. It misreads key 0x90000, page 144, as "no key", fails to make the queue
  // that gets this key, and then fails for every other queue. One long, unused queue covers that
  // page. The domains of the device own it, so that it is destroyed with the last of them and an
  // unplugged device can be closed.
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
  absl::Time ask_parked_ ABSL_GUARDED_BY(mutex_);  // when to call the functions in parked_
  std::map<ibv_context*, std::weak_ptr<ibv_cq>> covers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::dat::verbs
