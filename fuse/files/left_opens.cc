#include "fuse/files/left_opens.h"

#include <utility>

namespace dafs::fuse {

void LeftOpens::AddFile(uint64_t request, uint64_t fh) {
  absl::MutexLock lock(&mutex_);
  entries_[request].left.file = fh;
}

void LeftOpens::AddDirectory(uint64_t request, uint64_t fh) {
  absl::MutexLock lock(&mutex_);
  entries_[request].left.directory = fh;
}

void LeftOpens::AddOpen(uint64_t request, const wire::StateId& open, const client::Identity& user) {
  absl::MutexLock lock(&mutex_);
  Left& left = entries_[request].left;
  left.open = open;
  left.user = user;
}

bool LeftOpens::Has(uint64_t request) const {
  absl::MutexLock lock(&mutex_);
  return entries_.contains(request);
}

void LeftOpens::WasSentAgain(uint64_t request) {
  absl::MutexLock lock(&mutex_);
  const auto entry = entries_.find(request);
  if (entry != entries_.end()) entry->second.was_sent_again = true;
}

LeftOpens::Left LeftOpens::Take(uint64_t request) {
  absl::MutexLock lock(&mutex_);
  const auto entry = entries_.find(request);
  if (entry == entries_.end()) return {};
  Left left = std::move(entry->second.left);
  entries_.erase(entry);
  return left;
}

std::vector<wire::StateId> LeftOpens::TakeDropped() {
  std::vector<wire::StateId> dropped;
  absl::MutexLock lock(&mutex_);
  absl::erase_if(entries_, [&](const auto& one) {
    const Entry& entry = one.second;
    const bool is_unused = entry.left.file == 0 && !entry.left.open.is_zero();
    if (!entry.was_sent_again && is_unused) dropped.push_back(entry.left.open);
    return !entry.was_sent_again;
  });
  return dropped;
}

}  // namespace dafs::fuse
