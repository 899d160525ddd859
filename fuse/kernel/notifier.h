// The thread that tells the kernel to drop the cached pages of a file. That waits for pages that
// are being read or written, for which the kernel waits for us: a thread that serves requests must
// not do it (FUSE-FACTS 14).
#pragma once

#include <cstdint>
#include <deque>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "fuse/kernel/channel.h"

namespace dafs::fuse {

class Notifier {
 public:
  // `device`: an end of the mount's connection, for this thread alone; requests are not read from
  // it.
  explicit Notifier(UniqueFd device);
  ~Notifier() { Stop(); }
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // From any thread: the kernel forgets the attributes and the data that it caches for `nodeid`,
  // once what was written to it by a map is with us. `done` runs then, on whatever thread.
  void DropPages(uint64_t nodeid, absl::AnyInvocable<void()> done) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for the notification under way. Others are not made any more, but end all the same.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Drop {
    uint64_t nodeid = 0;
    absl::AnyInvocable<void()> done;
  };
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stop_ || !queue_.empty(); }

  KernelChannel channel_;
  absl::Mutex mutex_;
  std::deque<Drop> queue_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace dafs::fuse
