#include "client/state/locks.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace dafs::client {

using wire::LockRange;

namespace {

// How many waiters one release wakes. The server serves them in order, and the released lock
// suffices for one writer or a few readers. The other waiters retry on their timers.
constexpr int kMostWoken = 4;

}  // namespace

std::vector<LockRange> Locks::Granted(const LockOwner& owner, const LockRange& range) {
  absl::MutexLock lock(&mutex_);
  Owner& held = files_[owner.file].owners[owner.state_id];
  std::vector<LockRange> before = Set(held, owner, range);
  Record(owner.file, owner.state_id, held);
  return before;
}

// Nothing is recorded of an owner without locks.
void Locks::Record(const wire::FileHandle& file, const wire::StateId& open, Owner& held) {
  if (recorder_ == nullptr) return;
  if (held.ranges.empty()) return recorder_->Drop(std::exchange(held.slot, 0));
  held.slot = recorder_->PutLocks({.file = file,
                                   .open = open,
                                   .process = held.process,
                                   .is_local = held.local,
                                   .ranges = held.ranges.ranges()},
                                  held.slot);
}

void Locks::Restore(const LockOwner& owner, const std::vector<LockRange>& ranges, bool is_local) {
  absl::MutexLock lock(&mutex_);
  Owner& held = files_[owner.file].owners[owner.state_id];
  held.local = is_local;
  for (const LockRange& range : ranges) Set(held, owner, range);
  Record(owner.file, owner.state_id, held);
}

std::vector<LockRange> Locks::Set(Owner& held, const LockOwner& owner, const LockRange& range) {
  std::vector<LockRange> before;
  for (const LockRange& had : held.ranges.ranges()) {
    if (!had.Overlaps(range)) continue;
    before.push_back({std::max(had.first, range.first), std::min(had.last, range.last), had.write});
  }
  held.process = owner.process;
  held.ranges.Set(range);
  return before;
}

bool Locks::Release(const LockOwner& owner, uint64_t first, uint64_t last) {
  absl::MutexLock lock(&mutex_);
  auto file = files_.find(owner.file);
  if (file == files_.end()) return false;
  auto held = file->second.owners.find(owner.state_id);
  if (held == file->second.owners.end()) return false;
  held->second.ranges.Clear(first, last);
  Record(owner.file, owner.state_id, held->second);
  if (held->second.ranges.empty()) file->second.owners.erase(held);
  Tidy(owner.file);
  return true;
}

void Locks::Released(const LockOwner& owner, uint64_t first, uint64_t last) {
  if (Release(owner, first, last)) Wake(owner.file, {{first, last, true}});
}

std::vector<LockRange> Locks::Forget(const wire::FileHandle& handle,
                                     const wire::StateId& state_id) {
  std::vector<LockRange> ranges;
  absl::MutexLock lock(&mutex_);
  auto file = files_.find(handle);
  if (file == files_.end()) return ranges;
  auto held = file->second.owners.find(state_id);
  if (held == file->second.owners.end()) return ranges;
  ranges = held->second.ranges.ranges();
  if (recorder_ != nullptr) recorder_->Drop(held->second.slot);
  file->second.owners.erase(held);
  Tidy(handle);
  return ranges;
}

void Locks::Wake(const wire::FileHandle& handle, const std::vector<LockRange>& ranges) {
  absl::MutexLock lock(&mutex_);
  auto file = files_.find(handle);
  if (file == files_.end()) return;
  for (const LockRange& range : ranges) WakeSome(file->second, range.first, range.last);
}

std::vector<LockRange> Locks::HeldBy(const wire::FileHandle& handle,
                                     const wire::StateId& state_id) const {
  absl::MutexLock lock(&mutex_);
  auto file = files_.find(handle);
  if (file == files_.end()) return {};
  auto held = file->second.owners.find(state_id);
  if (held == file->second.owners.end()) return {};
  return held->second.ranges.ranges();
}

std::optional<wire::StateId> Locks::OverlappedBy(const wire::FileHandle& handle, uint64_t first,
                                                 uint64_t last, const wire::StateId& but) const {
  absl::MutexLock lock(&mutex_);
  auto file = files_.find(handle);
  if (file == files_.end()) return std::nullopt;
  for (const auto& [state_id, owner] : file->second.owners) {
    for (const LockRange& range : owner.ranges.ranges()) {
      if (state_id != but && range.Overlaps({first, last, true})) return state_id;
    }
  }
  return std::nullopt;
}

std::vector<LockOwner> Locks::Owners() const {
  std::vector<LockOwner> owners;
  absl::MutexLock lock(&mutex_);
  for (const auto& [handle, file] : files_) {
    for (const auto& [state_id, owner] : file.owners) {
      owners.push_back({handle, state_id, owner.process});
    }
  }
  return owners;
}

bool Locks::IsLocked(const wire::FileHandle& handle) const {
  absl::MutexLock lock(&mutex_);
  auto file = files_.find(handle);
  return file != files_.end() && !file->second.owners.empty();
}

size_t Locks::count() const {
  size_t count = 0;
  absl::MutexLock lock(&mutex_);
  for (const auto& [handle, file] : files_) {
    for (const auto& [state_id, owner] : file.owners) count += owner.ranges.size();
  }
  return count;
}

void Locks::BeginWait(Wait* wait) {
  absl::MutexLock lock(&mutex_);
  files_[wait->owner.file].waits.push_back(wait);
}

void Locks::EndWait(Wait* wait) {
  absl::MutexLock lock(&mutex_);
  std::erase(files_[wait->owner.file].waits, wait);
  Tidy(wait->owner.file);
}

void Locks::SetAnnounced(bool announced) {
  absl::MutexLock lock(&mutex_);
  if (!announced_.exchange(announced, std::memory_order_acq_rel) && !announced) return;
  for (const auto& [handle, file] : files_) {
    for (Wait* wait : file.waits) {
      wait->awaits = wait->announced = false;
      wait->waker.Wake();
    }
  }
}

void Locks::Announce(const wire::FileHandle& handle, uint64_t offset, uint64_t length) {
  const LockRange range =
      wire::LockRangeOf(offset, std::max<uint64_t>(length, 1), wire::LockType::kRead);
  absl::MutexLock lock(&mutex_);
  auto file = files_.find(handle);
  if (file != files_.end()) AnnounceAfter(file->second.waits, nullptr, range);
}

void Locks::Denied(Wait* wait, bool awaits) {
  absl::MutexLock lock(&mutex_);
  wait->awaits = awaits && announced();
  if (!std::exchange(wait->announced, false)) return;
  AnnounceAfter(files_[wait->owner.file].waits, wait, wait->range);
}

void Locks::AnnounceAfter(const std::vector<Wait*>& waits, const Wait* after,
                          const LockRange& range) {
  auto next = waits.begin();
  if (after != nullptr) next = std::find(waits.begin(), waits.end(), after) + 1;
  next = std::find_if(next, waits.end(), [&](const Wait* wait) {
    return !wait->announced && wait->range.first == range.first && wait->range.last == range.last;
  });
  if (next == waits.end()) return;
  (*next)->announced = true;
  (*next)->waker.Wake();
}

void Locks::WakeSome(const File& file, uint64_t first, uint64_t last) {
  int woken = 0;
  for (const Wait* wait : file.waits) {
    if (wait->awaits || !wait->range.Overlaps({first, last, true})) continue;
    wait->waker.Wake();
    if (++woken == kMostWoken) return;
  }
}

void Locks::Tidy(const wire::FileHandle& handle) {
  auto file = files_.find(handle);
  const File& known = file->second;
  if (known.owners.empty() && known.waits.empty() && known.at_server == 0) files_.erase(file);
}

// ---- Local locks -----------------------------------------------------------------------------

bool Locks::HasAtServer(const File& file) {
  return file.at_server != 0 || std::any_of(file.owners.begin(), file.owners.end(),
                                            [](const auto& owner) { return !owner.second.local; });
}

// Whether another owner holds a lock that conflicts with `range`.
bool Locks::IsBlocked(const File& file, const LockOwner& owner, const LockRange& range) {
  return std::any_of(file.owners.begin(), file.owners.end(), [&](const auto& other) {
    return other.first != owner.state_id && other.second.ranges.FindConflict(range) != nullptr;
  });
}

Locks::Local Locks::GrantLocally(const LockOwner& owner, const LockRange& range, const Wait* wait,
                                 std::vector<LockRange>* before) {
  absl::MutexLock lock(&mutex_);
  if (const auto known = files_.find(owner.file); known != files_.end()) {
    const File& file = known->second;
    if (HasAtServer(file)) return Local::kAtServer;
    if (IsBlocked(file, owner, range)) return Local::kDenied;
    // A waiter that was woken gets the lock before those who ask later.
    for (const Wait* other : file.waits) {
      if (other == wait) break;
      if (other->owner.state_id != owner.state_id && other->range.ConflictsWith(range) &&
          !IsBlocked(file, other->owner, other->range)) {
        return Local::kDenied;
      }
    }
  }
  Owner& held = files_[owner.file].owners[owner.state_id];
  held.local = true;
  *before = Set(held, owner, range);
  Record(owner.file, owner.state_id, held);
  return Local::kGranted;
}

void Locks::MadeReal(const wire::FileHandle& handle, const wire::StateId& open) {
  absl::MutexLock lock(&mutex_);
  const auto file = files_.find(handle);
  if (file == files_.end()) return;
  const auto held = file->second.owners.find(open);
  if (held == file->second.owners.end() || !std::exchange(held->second.local, false)) return;
  Record(handle, open, held->second);
}

std::vector<wire::StateId> Locks::LocalOpens(const wire::FileHandle& handle) const {
  std::vector<wire::StateId> opens;
  absl::MutexLock lock(&mutex_);
  const auto file = files_.find(handle);
  if (file == files_.end()) return opens;
  for (const auto& [state_id, owner] : file->second.owners) {
    if (owner.local) opens.push_back(state_id);
  }
  return opens;
}

std::vector<std::pair<wire::StateId, LockRange>> Locks::ConflictsWith(
    const wire::FileHandle& handle, const LockRange& range) const {
  std::vector<std::pair<wire::StateId, LockRange>> conflicts;
  absl::MutexLock lock(&mutex_);
  const auto file = files_.find(handle);
  if (file == files_.end()) return conflicts;
  for (const auto& [state_id, owner] : file->second.owners) {
    if (const LockRange* held = owner.ranges.FindConflict(range)) {
      conflicts.emplace_back(state_id, *held);
    }
  }
  return conflicts;
}

bool Locks::IsAtServer(const wire::FileHandle& handle) const {
  absl::MutexLock lock(&mutex_);
  const auto file = files_.find(handle);
  return file != files_.end() && HasAtServer(file->second);
}

void Locks::WakeAll(const wire::FileHandle& handle) {
  absl::MutexLock lock(&mutex_);
  const auto file = files_.find(handle);
  if (file == files_.end()) return;
  for (const Wait* wait : file->second.waits) wait->waker.Wake();
}

void Locks::CountAtServer(const wire::FileHandle& handle, int by) {
  absl::MutexLock lock(&mutex_);
  files_[handle].at_server += by;
  Tidy(handle);
}

bool Locks::IsDeadlock(const Wait& first) const {
  if (first.owner.process == 0) return false;
  absl::MutexLock lock(&mutex_);
  absl::flat_hash_set<uint64_t> seen;
  std::vector<const Wait*> open = {&first};
  while (!open.empty()) {
    const Wait& wait = *open.back();
    open.pop_back();
    auto file = files_.find(wait.owner.file);
    if (file == files_.end()) continue;
    for (const auto& [state_id, owner] : file->second.owners) {
      // A process does not wait for itself: another open of it is one that is being closed.
      if (owner.process == 0 || owner.process == wait.owner.process) continue;
      if (owner.ranges.FindConflict(wait.range) == nullptr) continue;
      if (owner.process == first.owner.process) return true;
      if (!seen.insert(owner.process).second) continue;
      for (const auto& [handle, other] : files_) {
        for (const Wait* next : other.waits) {
          if (next->owner.process == owner.process) open.push_back(next);
        }
      }
    }
  }
  return false;
}

}  // namespace dafs::client
