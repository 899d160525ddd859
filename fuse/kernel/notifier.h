// The thread that invalidates the kernel's cached pages of a file. An invalidation waits for pages
// that are being read or written, and for these the kernel waits for us. So a thread that serves
// requests must not do it (FUSE-FACTS 14).
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
  // `device`: an end of the mount's connection, used by this thread only. No requests are read from
  // it.
  explicit Notifier(UniqueFd device);
  ~Notifier() { Stop(); }
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // From any thread. Invalidates the attributes and data that the kernel caches for `nodeid`, after
  // writes through a mapping of the file have reached us. Then runs `done`, on any thread.
  void DropPages(uint64_t nodeid, absl::AnyInvocable<void()> done) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for the notification in progress. Skips the others, but runs their `done`.
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
