// The threads that invalidate what the kernel has cached where that waits for requests in progress:
// the pages of a file, and a name of a directory. For these requests the kernel waits for us, so a
// thread that serves requests must not do it (docs/fuse.md 14).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "fuse/kernel/channel.h"
#include "fuse/kernel/notifications/notification_relay.h"

namespace dafs::fuse {

class Notifier {
 public:
  // At most this many threads drop names, each made when all others are busy. A change of
  // a name in one directory may wait until another mount has dropped a name, which may wait for
  // this mount to drop one in another directory. So a name must not wait for another directory's
  // lock: the names of one directory are dropped one after another, and hold one thread.
  static constexpr size_t kNameThreads = 16;

  // `device`: an end of the mount's connection, used by these threads only. No requests are read
  // from it.
  explicit Notifier(UniqueFd device) : channel_(std::move(device)) {}
  // From now on the notifications are sent by the process of `relay`, so that this one ends at once
  // when it is killed. If that process ends, these threads send them again. Call before the first.
  void SendBy(std::unique_ptr<NotificationRelay> relay) { relay_ = std::move(relay); }
  ~Notifier() { Stop(); }
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // From any thread. Invalidates the attributes and data that the kernel caches for `nodeid`, after
  // writes through a mapping of the file have reached us. Then runs `done`, on any thread.
  void DropPages(uint64_t nodeid, absl::AnyInvocable<void()> done);
  // The same, unless `wanted` returns false when its turn has come.
  void DropPagesIf(uint64_t nodeid, absl::AnyInvocable<bool()> wanted);
  // From any thread. Runs `done` when DropPages, DropPagesIf and DropListing of the node that were
  // called before have ended: now, or on any thread. The kernel discards attributes that it
  // requests before they end. Returns false if they had not ended yet.
  bool AfterDrops(uint64_t nodeid, absl::AnyInvocable<void()> done) ABSL_LOCKS_EXCLUDED(mutex_);
  // From any thread. Invalidates a name (KernelChannel::ForgetName), then runs `done`, on any
  // thread. Names of different directories are dropped in any order, and independently of pages.
  void DropName(uint64_t parent, std::string name, KernelChannel::NameDrop how,
                absl::AnyInvocable<void()> done);

  // From any thread. Invalidates the listing that the kernel caches for directory `nodeid`, then
  // runs `done`, on any thread. Does not wait for files.
  void DropListing(uint64_t nodeid, absl::AnyInvocable<void()> done);

  // Whether no notification is in progress or waits for its turn.
  bool idle() const { return pages_.idle() && names_.idle(); }
  // Waits for the notifications in progress. Skips the others and later ones, but runs their
  // `done`, until Resume.
  void Stop();
  void Resume();

 private:
  // Queues of work with their threads. Each queue has its turn in order, and one thread at most.
  class Lane {
   public:
    struct Work {
      absl::AnyInvocable<void(KernelChannel&)> notify;
      absl::AnyInvocable<void()> done;
    };
    Lane(Notifier& notifier, size_t most_threads)
        : notifier_(notifier), most_threads_(most_threads) {}
    ~Lane() { Stop(); }
    void Add(uint64_t queue, Work work) ABSL_LOCKS_EXCLUDED(mutex_);
    void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
    void Resume() ABSL_LOCKS_EXCLUDED(mutex_) {
      absl::MutexLock lock(&mutex_);
      stop_ = false;
    }
    bool idle() const ABSL_LOCKS_EXCLUDED(mutex_) {
      absl::MutexLock lock(&mutex_);
      return queues_.empty() && idle_ == threads_.size();
    }

   private:
    void Run() ABSL_LOCKS_EXCLUDED(mutex_);
    // Whether there are threads for the queues that are ready. May start one.
    bool HasThreads() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    Work TakeLast(uint64_t queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stop_ || !ready_.empty(); }

    Notifier& notifier_;
    const size_t most_threads_;
    mutable absl::Mutex mutex_;
    // The queues with work: those that are ready, and those of which a thread does work.
    absl::flat_hash_map<uint64_t, std::deque<Work>> queues_ ABSL_GUARDED_BY(mutex_);
    std::deque<uint64_t> ready_ ABSL_GUARDED_BY(mutex_);
    size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;  // threads that wait for work
    bool stop_ ABSL_GUARDED_BY(mutex_) = false;
    std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  };

  // One drop of the node's pages begins, and ends.
  void Begin(uint64_t nodeid) ABSL_LOCKS_EXCLUDED(mutex_);
  void End(uint64_t nodeid) ABSL_LOCKS_EXCLUDED(mutex_);

  struct Drops {
    size_t pending = 0;
    std::vector<absl::AnyInvocable<void()>> waiters;
  };

  // Sends the notifications of one thread, by the relay if there is one.
  class Sender {
   public:
    explicit Sender(Notifier& notifier);
    void Send(absl::AnyInvocable<void(KernelChannel&)>& notify);

   private:
    KernelChannel& direct_;
    std::optional<KernelChannel> relayed_;
  };

  std::unique_ptr<NotificationRelay> relay_;  // null: none
  KernelChannel channel_;  // its notifications may be sent by several threads at once
  absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, Drops> drops_ ABSL_GUARDED_BY(mutex_);  // by node, while pending
  Lane pages_{*this, 1};
  Lane names_{*this, kNameThreads};
};

}  // namespace dafs::fuse
