#include "server/store/holdings/locks/kernel_leases.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "absl/synchronization/notification.h"

namespace dafs::server {

namespace {

// A real-time signal is queued for each break. If the queue is full, the kernel sends SIGIO.
int BreakSignal() { return SIGRTMIN + 1; }

// A broken lease is already reported as what it is to become.
bool IsWhole(int fd) { return fcntl(fd, F_GETLEASE) == F_RDLCK; }

bool SetLease(int fd, int thread_id) {
  // The owner comes first: without one the kernel would signal the process.
  const f_owner_ex owner = {F_OWNER_TID, thread_id};
  return fcntl(fd, F_SETSIG, BreakSignal()) == 0 && fcntl(fd, F_SETOWN_EX, &owner) == 0 &&
         fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
}

}  // namespace

void KernelLeases::Start() {
  absl::Notification started;
  thread_ = std::thread([this, &started] {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, BreakSignal());
    sigaddset(&signals, SIGIO);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    {
      absl::MutexLock lock(&mutex_);
      thread_id_ = gettid();
    }
    started.Notify();
    Run();
  });
  started.WaitForNotification();
}

void KernelLeases::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    thread_id_ = 0;
    for (const auto& [key, fd] : by_key_) {
      before_end_(key);
      fcntl(fd->get(), F_SETLEASE, F_UNLCK);
    }
    by_key_.clear();
    by_fd_.clear();
    count_.store(0, std::memory_order_seq_cst);
  }
  is_ending_ = true;
  pthread_kill(thread_.native_handle(), SIGIO);  // unlike the other, not lost if the queue is full
  thread_.join();
}

void KernelLeases::Run() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, BreakSignal());
  sigaddset(&signals, SIGIO);
  while (!is_ending_) {
    siginfo_t info;
    const int signal = sigwaitinfo(&signals, &info);
    if (signal == BreakSignal()) Report(info.si_fd);
    if (signal == SIGIO) ReportAll();
  }
}

void KernelLeases::Report(int fd) {
  ObjectKey key;
  {
    absl::MutexLock lock(&mutex_);
    const auto it = by_fd_.find(fd);
    // The signal may have come for an earlier lease of the same number.
    if (it == by_fd_.end() || IsWhole(fd)) return;
    key = it->second;
  }
  on_break_(key);
}

void KernelLeases::ReportAll() {
  std::vector<ObjectKey> broken;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [fd, key] : by_fd_) {
      if (!IsWhole(fd)) broken.push_back(key);
    }
  }
  for (const ObjectKey& key : broken) on_break_(key);
}

bool KernelLeases::Take(const ObjectKey& key, std::shared_ptr<const UniqueFd> fd) {
  absl::MutexLock lock(&mutex_);
  if (const auto it = by_key_.find(key); it != by_key_.end()) return IsWhole(it->second->get());
  if (thread_id_ == 0 || !SetLease(fd->get(), thread_id_)) return false;
  by_fd_[fd->get()] = key;
  by_key_[key] = std::move(fd);
  count_.store(by_key_.size(), std::memory_order_seq_cst);
  return true;
}

bool KernelLeases::End(const ObjectKey& key) {
  if (count_.load(std::memory_order_seq_cst) == 0) return false;
  std::shared_ptr<const UniqueFd> fd;  // closed after the lock is released
  absl::MutexLock lock(&mutex_);
  const auto it = by_key_.find(key);
  if (it == by_key_.end()) return false;
  fd = std::move(it->second);
  by_key_.erase(it);
  by_fd_.erase(fd->get());
  count_.store(by_key_.size(), std::memory_order_seq_cst);
  before_end_(key);
  fcntl(fd->get(), F_SETLEASE, F_UNLCK);
  return true;
}

bool KernelLeases::Has(const ObjectKey& key) const {
  if (count_.load(std::memory_order_seq_cst) == 0) return false;
  absl::MutexLock lock(&mutex_);
  return by_key_.contains(key);
}

std::vector<ObjectKey> KernelLeases::Removed() const {
  std::vector<ObjectKey> removed;
  if (count_.load(std::memory_order_seq_cst) == 0) return removed;
  std::vector<std::pair<ObjectKey, std::shared_ptr<const UniqueFd>>> all;
  {
    absl::MutexLock lock(&mutex_);
    all.assign(by_key_.begin(), by_key_.end());
  }
  for (const auto& [key, fd] : all) {
    struct stat st;
    if (fstat(fd->get(), &st) == 0 && st.st_nlink == 0) removed.push_back(key);
  }
  return removed;
}

absl::Duration KernelLeases::BreakTime() {
  double seconds = 45;  // the kernel's default
  std::ifstream("/proc/sys/fs/lease-break-time") >> seconds;
  return seconds > 0 ? absl::Seconds(seconds) : absl::InfiniteDuration();
}

}  // namespace dafs::server
