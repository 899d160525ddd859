#include "client/state/data/lost_data.h"

#include <algorithm>
#include <utility>

namespace dafs::client {

bool LostData::Note(const wire::FileHandle& file, const absl::Status& why, bool once) {
  absl::MutexLock lock(&mutex_);
  auto [it, fresh] = losses_.try_emplace(file);
  Loss& loss = it->second;
  const bool first = fresh || loss.recovered;
  loss.recovered = false;
  if ((first || !once) && loss.why.ok()) loss.why = why;
  files_.store(losses_.size(), std::memory_order_release);
  return first;
}

absl::Status LostData::Take(const wire::FileHandle& file) {
  if (files_.load(std::memory_order_acquire) == 0) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  auto it = losses_.find(file);
  if (it == losses_.end()) return absl::OkStatus();
  absl::Status why = std::exchange(it->second.why, absl::OkStatus());
  if (it->second.recovered) losses_.erase(it);
  files_.store(losses_.size(), std::memory_order_release);
  return why;
}

void LostData::Recovered(const wire::FileHandle& file) {
  if (files_.load(std::memory_order_acquire) == 0) return;
  absl::MutexLock lock(&mutex_);
  auto it = losses_.find(file);
  if (it == losses_.end()) return;
  it->second.recovered = true;
  if (it->second.why.ok()) losses_.erase(it);
  files_.store(losses_.size(), std::memory_order_release);
}

bool LostData::any() const {
  absl::MutexLock lock(&mutex_);
  return std::any_of(losses_.begin(), losses_.end(),
                     [](const auto& loss) { return !loss.second.why.ok(); });
}

}  // namespace dafs::client
