// Leases of the server's kernel (F_SETLEASE with F_RDLCK, fcntl(2)) for files with read
// delegations or exported blocks, which programs of the server's machine may change. Such a program
// that opens the file for writing or truncates it waits in the kernel until the lease has ended.
// Meanwhile the delegations are recalled.
//
// A file has at most one lease, whatever the number of its delegations. The kernel grants none
// while the file is open or mapped for writing. It ends one by itself after BreakTime().
// An open by this process breaks the lease like any other, so the store ends it first.
//
// The kernel signals a break to the thread of this class alone (F_OWNER_TID). Other threads need
// not block or handle signals.
// Thread-safe. Only Stop blocks: it joins the thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/files/unique_fd.h"
#include "server/store/objects/handle.h"

namespace dafs::server {

class KernelLeases {
 public:
  // `on_break` is called when a program waits for the end of the file's lease. It runs on the
  // thread of this class, without a lock of it, perhaps more than once, and must not block.
  // `before_end` is called before a lease ends, so before a local program changes the file. It runs
  // under the lock of this class, and must not block.
  explicit KernelLeases(
      std::function<void(const ObjectKey&)> on_break,
      std::function<void(const ObjectKey&)> before_end = [](const ObjectKey&) {})
      : on_break_(std::move(on_break)), before_end_(std::move(before_end)) {}
  ~KernelLeases() { Stop(); }
  KernelLeases(const KernelLeases&) = delete;
  KernelLeases& operator=(const KernelLeases&) = delete;

  // Starts the thread, with the identity of the caller. Until then Take returns false.
  void Start();
  // Ends all leases and the thread. Take returns false from then on. One thread.
  void Stop();

  // Makes sure that the file has a lease that is not broken. If it needs one, takes it on `fd`, a
  // descriptor of the file for reading, which it keeps until the end. Returns false if the kernel
  // grants none.
  // on_break may be called at once, so the caller records first what it must find.
  bool Take(const ObjectKey& key, std::shared_ptr<const UniqueFd> fd);
  // Ends the lease of the file: a program that waits for it proceeds. Returns whether there was
  // one.
  bool End(const ObjectKey& key);
  // Whether the file has a lease. One atomic read if no file has.
  bool Has(const ObjectKey& key) const;

  // The files with a lease that have lost their last name.
  std::vector<ObjectKey> Removed() const;

  // How long the kernel waits for the end of a broken lease (fs.lease-break-time).
  static absl::Duration BreakTime();

 private:
  void Run();
  // Reports the break of the lease of this descriptor, or of all leases that are broken if signals
  // were lost.
  void Report(int fd);
  void ReportAll();

  const std::function<void(const ObjectKey&)> on_break_;
  const std::function<void(const ObjectKey&)> before_end_;
  // Of by_key_. Take counts a lease before its caller looks for a change of the file that has begun
  // (Promises::IsBeingChanged). A change begins before its thread reads this count.
  std::atomic<size_t> count_{0};
  std::atomic<bool> is_ending_{false};  // the thread is to return
  std::thread thread_;
  mutable absl::Mutex mutex_;
  int thread_id_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: no leases are taken
  absl::flat_hash_map<ObjectKey, std::shared_ptr<const UniqueFd>> by_key_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int, ObjectKey> by_fd_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
