#include "client/state/server/root_handle.h"

#include <algorithm>
#include <utility>

namespace dafs::client {

void RootHandle::Found(const wire::FileHandle& handle) {
  absl::MutexLock lock(&mutex_);
  handles_ = {handle};
  is_reported_lost_ = false;
  renewed_.store(false, std::memory_order_relaxed);
}

std::optional<wire::FileHandle> RootHandle::Latest() const {
  absl::MutexLock lock(&mutex_);
  if (handles_.empty()) return std::nullopt;
  return handles_.back();
}

std::optional<wire::FileHandle> RootHandle::Present(const wire::FileHandle& handle) const {
  absl::MutexLock lock(&mutex_);
  if (std::find(handles_.begin(), handles_.end(), handle) == handles_.end()) return std::nullopt;
  return handles_.back();
}

std::optional<wire::FileHandle> RootHandle::Kept(const wire::FileHandle& handle) const {
  absl::MutexLock lock(&mutex_);
  if (std::find(handles_.begin(), handles_.end(), handle) == handles_.end()) return std::nullopt;
  return handles_.front();
}

bool RootHandle::ReportLost() {
  absl::MutexLock lock(&mutex_);
  return !std::exchange(is_reported_lost_, true);
}

bool RootHandle::Renew(const wire::FileHandle& expired, const wire::FileHandle& handle) {
  absl::MutexLock lock(&mutex_);
  if (handles_.empty() || handles_.back() != expired || handle == expired) {
    return false;
  }
  is_reported_lost_ = false;
  // A handle that the server uses again is kept once.
  const auto known = std::find(handles_.begin() + 1, handles_.end(), handle);
  if (known != handles_.end()) handles_.erase(known);
  if (handles_.size() == kMost) handles_.erase(handles_.begin() + 1);
  handles_.push_back(handle);
  renewed_.store(true, std::memory_order_relaxed);
  return true;
}

std::vector<wire::FileHandle> RootHandle::Save() const {
  absl::MutexLock lock(&mutex_);
  return handles_;
}

void RootHandle::Restore(std::vector<wire::FileHandle> handles) {
  absl::MutexLock lock(&mutex_);
  handles_ = std::move(handles);
  renewed_.store(handles_.size() > 1, std::memory_order_relaxed);
}

}  // namespace dafs::client
