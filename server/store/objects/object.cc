#include "server/store/objects/object.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/files/unique_fd.h"
#include "server/store/system/fd_path.h"
#include "server/store/system/identity.h"

namespace dafs::server {

uint64_t ChangeCounter::Value(uint64_t ctime_ns, uint64_t sample) {
  absl::MutexLock lock(&mutex_);
  if (ctime_ns != ctime_ns_ || sample != told_) {
    number_ = std::max(number_ + 1, ctime_ns);
    // A sample older than the last reported one belongs to an older state. Zero makes the next
    // state get a new number.
    ctime_ns_ = sample < told_ ? 0 : ctime_ns;
    told_ = std::max(told_, sample);
  }
  return base_ + number_;
}

ChangeCounter::Saved ChangeCounter::Save() {
  absl::MutexLock lock(&mutex_);
  const bool untold = ctime_ns_ != 0 && Sample() != told_;
  return {ctime_ns_, number_ - ctime_ns_ + (untold ? 1 : 0)};
}

void ChangeCounter::Restore(const Saved& saved) {
  absl::MutexLock lock(&mutex_);
  if (ctime_ns_ != 0 || Sample() != 0) return;
  ctime_ns_ = saved.ctime_ns;
  number_ = saved.ctime_ns + saved.extra;
}

uint64_t ChangeCounter::Saved::Value(uint64_t base, uint64_t now_ctime_ns) const {
  const uint64_t number = ctime_ns + extra;
  return base + (now_ctime_ns == ctime_ns ? number : std::max(number + 1, now_ctime_ns));
}

Object::Object(const FileSystem& fs, const wire::FileHandle& handle, UniqueFd path, mode_t type,
               std::atomic<size_t>& descriptors, uint64_t change_base)
    : fs_(fs),
      handle_(handle),
      path_(std::move(path)),
      type_(type),
      descriptors_(descriptors),
      change_(change_base) {
  descriptors_.fetch_add(1, std::memory_order_relaxed);
}

Object::~Object() { descriptors_.fetch_sub(1, std::memory_order_relaxed); }

std::shared_ptr<const UniqueFd> Object::Share(UniqueFd fd) {
  descriptors_.fetch_add(1, std::memory_order_relaxed);
  return {new UniqueFd(std::move(fd)), [count = &descriptors_](const UniqueFd* p) {
            delete p;
            count->fetch_sub(1, std::memory_order_relaxed);
          }};
}

std::shared_ptr<const UniqueFd> Object::DataFd(bool write, int* error) {
  {
    absl::MutexLock lock(&mutex_);
    if (write_ != nullptr) return write_;
    if (!write && read_ != nullptr) return read_;
  }
  ScopedPrivilege privilege(Privilege::kOverFiles);
  UniqueFd fd(open(FdPath(path_fd()).c_str(),
                   (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) {
    *error = errno;
    return nullptr;
  }
  return Donate(std::move(fd), write);
}

std::shared_ptr<const UniqueFd> Object::QuietFd(int* error) {
  {
    absl::MutexLock lock(&mutex_);
    if (quiet_ != nullptr) return quiet_;
  }
  ScopedPrivilege privilege(Privilege::kOverFiles);
  UniqueFd fd(open(FdPath(path_fd()).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) {
    *error = errno;
    return nullptr;
  }
  KeepAtime(fd);
  absl::MutexLock lock(&mutex_);
  if (quiet_ == nullptr) quiet_ = Share(std::move(fd));
  return quiet_;
}

void KeepAtime(const UniqueFd& fd) {
  ScopedPrivilege privilege(Privilege::kOverFiles);
  const int flags = fcntl(fd.get(), F_GETFL);
  if (flags >= 0) fcntl(fd.get(), F_SETFL, flags | O_NOATIME);
}

std::shared_ptr<const UniqueFd> Object::Donate(UniqueFd fd, bool write) {
  std::shared_ptr<const UniqueFd> unused;  // closed after the lock is released
  absl::MutexLock lock(&mutex_);
  if (!write && write_ != nullptr) return write_;
  std::shared_ptr<const UniqueFd>& slot = write ? write_ : read_;
  if (slot == nullptr) {
    slot = Share(std::move(fd));
    if (write) unused = std::move(read_);  // the descriptor for writing serves both
  }
  return slot;
}

bool Object::HasDataFd(bool write) {
  absl::MutexLock lock(&mutex_);
  return write_ != nullptr || (!write && read_ != nullptr);
}

void Object::DropWriteFd() {
  std::shared_ptr<const UniqueFd> dropped;
  absl::MutexLock lock(&mutex_);
  dropped = std::move(write_);
}

}  // namespace dafs::server
