// The part of PersistentLocks about changes that are to be undone.
#include <algorithm>

#include "server/store/holdings/caller.h"
#include "server/store/holdings/persistent_locks.h"

namespace dafs::server {

using wire::DafsStatus;
using wire::LockRange;
using wire::LockRanges;

bool PersistentLocks::IsUndoing(const File& file, const LockRange& range) {
  return std::any_of(file.undoing.begin(), file.undoing.end(),
                     [&](const Undo& each) { return each.range.Overlaps(range); });
}

bool PersistentLocks::IsUndoing(const ObjectKey& key, const LockRange& range) const {
  if (!MayConcern(key)) return false;
  absl::ReaderMutexLock lock(&mutex_);
  const auto file = files_.find(key);
  return file != files_.end() && IsUndoing(file->second, range);
}

void PersistentLocks::AddUndo(File& file, const Holder& holder, const LockRange& range) {
  const bool has = std::any_of(file.undoing.begin(), file.undoing.end(), [&](const Undo& each) {
    return each.holder == holder && each.range == range && !each.by_abort;
  });
  if (!has) file.undoing.push_back({holder, range});
}

void PersistentLocks::VisitRecovering(
    const Caller& caller, const ObjectKey& key,
    absl::FunctionRef<void(const LockHolder&, bool, const LockRanges&)> visit) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto file = files_.find(key);
  if (file == files_.end()) return;
  for (const Held& held : file->second.held) {
    if ((held.kind & kRecovers) == 0) continue;
    visit(held.holder, IsOf(caller, held), held.ranges);
  }
}

std::optional<PersistentLocks::Recovering> PersistentLocks::RecoveringOf(
    const wire::ClientId& client_id, const ObjectKey& key, const std::string& owner) const {
  if (!MayConcern(key)) return std::nullopt;
  std::optional<Recovering> found;
  absl::ReaderMutexLock lock(&mutex_);
  const auto file = files_.find(key);
  if (file == files_.end()) return std::nullopt;
  for (const Held& held : file->second.held) {
    if ((held.kind & kRecovers) == 0 || held.client_id != client_id || held.holder.owner != owner) {
      continue;
    }
    if (!found) found = Recovering{held.holder, {}};
    for (const LockRange& range : held.ranges.ranges()) found->ranges.Set(range);
  }
  return found;
}

void PersistentLocks::Abort(const wire::ClientId& client_id, const ObjectKey& key,
                            const std::string& owner, const LockRange& range) {
  absl::MutexLock changing(&changing_);
  {
    absl::MutexLock lock(&mutex_);
    const auto file = files_.find(key);
    if (file == files_.end()) return;
    for (const Held& held : file->second.held) {
      if ((held.kind & kRecovers) == 0 || held.client_id != client_id ||
          held.holder.owner != owner) {
        continue;
      }
      for (const LockRange& each : held.ranges.ranges()) {
        if (!each.Overlaps(range)) continue;
        file->second.undoing.push_back(
            {held.holder,
             {std::max(each.first, range.first), std::min(each.last, range.last), /*write=*/true},
             /*by_abort=*/true});
      }
    }
  }
  Wake();
}

std::vector<ObjectKey> PersistentLocks::UndoingFiles() const {
  std::vector<ObjectKey> keys;
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& [key, file] : files_) {
    if (!file.undoing.empty()) keys.push_back(key);
  }
  return keys;
}

DafsStatus PersistentLocks::BeginUndo(const ObjectKey& key, std::vector<Undoing>* all) {
  all->clear();
  absl::MutexLock changing(&changing_);
  const File file = FileOf(key);
  for (const Undo& undo : file.undoing) {
    auto same = std::find_if(all->begin(), all->end(),
                             [&](const Undoing& each) { return each.holder == undo.holder; });
    if (same == all->end()) same = all->insert(all->end(), Undoing{undo.holder, {}, {}});
    same->undone.Set({undo.range.first, undo.range.last, /*write=*/true});
  }
  for (Undoing& each : *all) {
    for (const Held& held : file.held) {
      if ((held.kind & kRecovers) == 0 || held.holder != each.holder) continue;
      for (const LockRange& range : held.ranges.ranges()) each.kept.Set(range);
    }
    for (const LockRange& range : each.undone.ranges()) each.kept.Clear(range.first, range.last);
  }
  return Replace(key, file);
}

DafsStatus PersistentLocks::Undone(const ObjectKey& key, const Undoing& undoing, Extra extra) {
  absl::MutexLock changing(&changing_);
  File file = FileOf(key);
  std::erase_if(file.undoing, [&](const Undo& each) {
    return each.holder == undoing.holder &&
           undoing.undone.Covers({each.range.first, each.range.last, /*write=*/true});
  });
  for (Held& held : file.held) {
    if (held.holder != undoing.holder || held.kind != kRecovers || !held.client_id.is_zero()) {
      continue;
    }
    for (const LockRange& range : undoing.undone.ranges()) {
      held.ranges.Clear(range.first, range.last);
    }
  }
  return Replace(key, std::move(file), extra);
}

}  // namespace dafs::server
