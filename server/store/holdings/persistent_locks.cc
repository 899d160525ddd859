#include "server/store/holdings/persistent_locks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/text.h"
#include "server/store/holdings/caller.h"

namespace dafs::server {

using wire::DafsStatus;
using wire::LockRange;
using wire::LockRanges;

namespace {

// The bytes of an I/O, which are never those of a flock(2) lock. A read conflicts only with a lock
// for writing.
LockRange RangeOf(const PersistentLocks::Io& io) {
  const uint64_t most = wire::kFlockByte - 1 - io.offset;
  return {io.offset, io.length - 1 > most ? wire::kFlockByte - 1 : io.offset + io.length - 1,
          io.write};
}

// A flock(2) lock stands for the whole file.
bool Concerns(const LockRange& lock, const LockRange& io) {
  return lock.Overlaps(io) || lock.is_flock();
}

}  // namespace

// ---- The records ------------------------------------------------------------------------------

PersistentLocks::File PersistentLocks::FileOf(const ObjectKey& key) const {
  if (!MayConcern(key)) return {};
  absl::ReaderMutexLock lock(&mutex_);
  const auto file = files_.find(key);
  return file != files_.end() ? file->second : File();
}

void PersistentLocks::Put(const ObjectKey& key, File file) {
  std::erase_if(file.held, [](const Held& held) { return held.ranges.empty(); });
  absl::MutexLock lock(&mutex_);
  if (file.empty()) {
    if (files_.erase(key) > 0) --marks_[MarkOf(key)];
  } else {
    const auto [place, is_new] = files_.try_emplace(key);
    place->second = std::move(file);
    if (is_new) ++marks_[MarkOf(key)];
  }
  any_ = !files_.empty();
}

DafsStatus PersistentLocks::Replace(const ObjectKey& key, File file, Extra extra) {
  if (const absl::Status stored = Write(key, file, extra); !stored.ok()) {
    LogError(absl::StrCat("persistent lock not changed: ", stored.message()));
    return stored.code() == absl::StatusCode::kResourceExhausted ? DafsStatus::kResource
                                                                 : DafsStatus::kServerFault;
  }
  Put(key, std::move(file));
  return DafsStatus::kOk;
}

// ---- Who may do what ---------------------------------------------------------------------------

PersistentLocks::Holder PersistentLocks::HolderOf(const Caller& caller, const std::string& owner) {
  return {std::string(caller.client_name), caller.client_verifier, owner};
}

bool PersistentLocks::IsOf(const Caller& caller, const Held& held) {
  if (!held.client_id.is_zero()) return held.client_id == caller.client_id;
  return held.holder.client_name == caller.client_name &&
         held.holder.verifier == caller.client_verifier;
}

DafsStatus PersistentLocks::CheckIo(const Caller& caller, bool has_state, const ObjectKey& key,
                                    const Io& bytes) const {
  if (bytes.length == 0) return DafsStatus::kOk;
  const LockRange io = RangeOf(bytes);
  absl::ReaderMutexLock lock(&mutex_);
  const auto file = files_.find(key);
  if (file == files_.end()) return DafsStatus::kOk;
  for (const Undo& each : file->second.undoing) {
    if (Concerns(each.range, io)) return DafsStatus::kDelay;
  }
  for (const Broken& each : file->second.broken) {
    if (!Concerns(each.range, io)) continue;
    if (!each.repairer) return has_state ? DafsStatus::kStaleStateId : DafsStatus::kLocked;
    if (each.repairer->client_id != caller.client_id) return DafsStatus::kLocked;
  }
  for (const Held& held : file->second.held) {
    if (IsOf(caller, held)) continue;
    const std::vector<LockRange>& ranges = held.ranges.ranges();
    const bool conflicts = std::any_of(ranges.begin(), ranges.end(), [&](const LockRange& each) {
      return Concerns(each, io) && (each.write || io.write);
    });
    if (conflicts) return DafsStatus::kLocked;
  }
  return DafsStatus::kOk;
}

void PersistentLocks::Break(File& file,
                            absl::FunctionRef<bool(const Held&, const LockRange&)> which) {
  for (Held& held : file.held) {
    const std::vector<LockRange> ranges = held.ranges.ranges();
    for (const LockRange& range : ranges) {
      if (!which(held, range)) continue;
      if ((held.kind & kRecovers) != 0) AddUndo(file, held.holder, range);
      if ((held.kind & kPersists) == 0) continue;
      held.ranges.Clear(range.first, range.last);
      file.broken.push_back({held.holder, range, std::nullopt});
    }
  }
}

DafsStatus PersistentLocks::Admit(const Caller& caller, const ObjectKey& key,
                                  const std::string& owner, const LockRange& range, bool repair,
                                  LockTable::Conflict* conflict) {
  if (FileOf(key).empty()) return repair ? DafsStatus::kInval : DafsStatus::kOk;
  const Holder holder = HolderOf(caller, owner);
  absl::MutexLock changing(&changing_);
  File file = FileOf(key);
  const size_t before = file.broken.size();
  const size_t undoing_before = file.undoing.size();
  Break(file, [&](const Held& held, const LockRange& each) {
    return held.client_id.is_zero() && held.holder != holder && each.ConflictsWith(range);
  });
  const bool has_broken_one = file.broken.size() > before;
  const bool has_undone_one = file.undoing.size() > undoing_before;
  if (has_broken_one || has_undone_one) {
    const DafsStatus status = Replace(key, file);
    if (status != DafsStatus::kOk) return status;
    if (has_undone_one) Wake();
  }
  if ((repair || !has_broken_one) && IsUndoing(file, range)) return DafsStatus::kDelay;
  size_t to_repair = 0;
  for (const Broken& each : file.broken) {
    if (!each.range.Overlaps(range)) continue;
    if (each.repairer) {  // held: a matter of the LockTable
      ++to_repair;
      continue;
    }
    if (!repair || has_broken_one) {
      *conflict = {LockOwner{{}, each.holder.owner}, each.range};
      return DafsStatus::kLockBroken;
    }
    ++to_repair;
    if (each.range.first < range.first || each.range.last > range.last) {
      return DafsStatus::kLockRange;
    }
  }
  return repair && to_repair == 0 ? DafsStatus::kInval : DafsStatus::kOk;
}

size_t PersistentLocks::BrokenOf(std::string_view client_name) const {
  size_t count = 0;
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& [key, file] : files_) {
    count += static_cast<size_t>(
        std::count_if(file.broken.begin(), file.broken.end(),
                      [&](const Broken& each) { return each.holder.client_name == client_name; }));
  }
  return count;
}

uint8_t PersistentLocks::KindOf(const wire::ClientId& client_id, const ObjectKey& key,
                                const std::string& owner, const LockRange& range) const {
  uint8_t kind = 0;
  if (!MayConcern(key)) return kind;
  absl::ReaderMutexLock lock(&mutex_);
  const auto file = files_.find(key);
  if (file == files_.end()) return kind;
  for (const Held& held : file->second.held) {
    if (held.client_id != client_id || held.holder.owner != owner) continue;
    if (held.ranges.FindConflict({range.first, range.last, /*write=*/true}) != nullptr) {
      kind |= held.kind;
    }
  }
  return kind;
}

DafsStatus PersistentLocks::Granted(const Caller& caller, const ObjectKey& key,
                                    const std::string& owner, const LockRange& range, uint8_t kind,
                                    bool repair) {
  if (kind == 0 && FileOf(key).empty()) return DafsStatus::kOk;
  const Holder holder = HolderOf(caller, owner);
  absl::MutexLock changing(&changing_);
  File file = FileOf(key);
  if (repair) {
    for (Broken& each : file.broken) {
      if (each.range.Overlaps(range)) each.repairer = LockOwner{caller.client_id, owner};
    }
    Put(key, std::move(file));  // on disk it stays broken: if this server ends, it is
    return DafsStatus::kOk;
  }
  const LockRange any_type{range.first, range.last, /*write=*/true};
  bool overlaps = false;
  for (const Held& held : file.held) {
    if (held.holder != holder || held.ranges.FindConflict(any_type) == nullptr) continue;
    overlaps = true;
    kind |= held.kind;
  }
  if (!range.write) kind &= static_cast<uint8_t>(~kRecovers);
  if (kind == 0) return DafsStatus::kOk;
  if ((kind & kPersists) != 0 && !overlaps && BrokenOf(caller.client_name) >= kMostBroken) {
    return DafsStatus::kResource;
  }
  bool is_stored = false;  // locked again, or reclaimed
  for (Held& held : file.held) {
    if (held.holder != holder) continue;
    is_stored = is_stored || (range.write && held.kind == kind && held.ranges.Covers(range));
    if (held.client_id.is_zero() || held.kind != kind) held.ranges.Clear(range.first, range.last);
  }
  // Ranges that the owner has not locked again stay breakable.
  const auto own = std::find_if(file.held.begin(), file.held.end(), [&](const Held& held) {
    return held.holder == holder && held.client_id == caller.client_id && held.kind == kind;
  });
  Held& held = own != file.held.end()
                   ? *own
                   : file.held.emplace_back(Held{holder, caller.client_id, {}, kind});
  held.ranges.Set(range);
  if (!is_stored) return Replace(key, std::move(file));
  Put(key, std::move(file));
  return DafsStatus::kOk;
}

DafsStatus PersistentLocks::Test(const Caller& caller, const ObjectKey& key,
                                 const std::string& owner, const LockRange& range,
                                 LockTable::Conflict* conflict) const {
  if (!MayConcern(key)) return DafsStatus::kOk;
  const Holder holder = HolderOf(caller, owner);
  absl::ReaderMutexLock lock(&mutex_);
  const auto file = files_.find(key);
  if (file == files_.end()) return DafsStatus::kOk;
  if (IsUndoing(file->second, range)) return DafsStatus::kDelay;
  for (const Broken& each : file->second.broken) {
    if (!each.range.Overlaps(range) || each.repairer) continue;
    *conflict = {LockOwner{{}, each.holder.owner}, each.range};
    return DafsStatus::kLockBroken;
  }
  for (const Held& held : file->second.held) {
    if (!held.client_id.is_zero() || held.holder == holder) continue;
    if (const LockRange* breakable = held.ranges.FindConflict(range)) {
      *conflict = {LockOwner{{}, held.holder.owner}, *breakable};
      return DafsStatus::kDenied;
    }
  }
  return DafsStatus::kOk;
}

bool PersistentLocks::MayReclaim(const Caller& caller, const ObjectKey& key,
                                 const std::string& owner, const LockRange& range) const {
  if (!MayConcern(key)) return false;
  const Holder holder = HolderOf(caller, owner);
  absl::ReaderMutexLock lock(&mutex_);
  const auto file = files_.find(key);
  if (file == files_.end() || IsUndoing(file->second, range)) return false;
  LockRanges held;
  for (const Held& each : file->second.held) {
    if (each.holder != holder) continue;
    for (const LockRange& one : each.ranges.ranges()) held.Set(one);
  }
  return held.Covers(range);
}

// ---- Ends --------------------------------------------------------------------------------------

DafsStatus PersistentLocks::Release(const wire::ClientId& client_id, const ObjectKey& key,
                                    const std::string& owner, uint64_t first, uint64_t last,
                                    Extra extra) {
  if (FileOf(key).empty()) return DafsStatus::kOk;
  absl::MutexLock changing(&changing_);
  File file = FileOf(key);
  const bool undoing = std::any_of(file.undoing.begin(), file.undoing.end(), [&](const Undo& each) {
    return each.holder.owner == owner && each.range.first <= last && first <= each.range.last &&
           std::any_of(file.held.begin(), file.held.end(), [&](const Held& held) {
             return held.client_id == client_id && held.holder == each.holder;
           });
  });
  if (undoing) return DafsStatus::kDelay;
  bool changed = false;
  for (Held& held : file.held) {
    if (held.client_id != client_id || held.holder.owner != owner) continue;
    if (held.ranges.FindConflict({first, last, /*write=*/true}) == nullptr) continue;
    held.ranges.Clear(first, last);
    changed = true;
  }
  std::vector<Broken> broken;
  for (Broken& each : file.broken) {
    if (each.repairer != LockOwner{client_id, owner} || first > each.range.last ||
        last < each.range.first) {
      broken.push_back(std::move(each));
      continue;
    }
    changed = true;
    LockRanges rest;
    rest.Set(each.range);
    rest.Clear(first, last);
    for (const LockRange& range : rest.ranges()) {
      broken.push_back({each.holder, range, each.repairer});
    }
  }
  file.broken = std::move(broken);
  return changed ? Replace(key, std::move(file), extra) : DafsStatus::kOk;
}

void PersistentLocks::Fail(const wire::ClientId& client_id, const ObjectKey& key,
                           const std::string& owner) {
  if (!MayConcern(key)) return;
  absl::MutexLock changing(&changing_);  // which may replace the file
  bool undoes = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto file = files_.find(key);
    if (file == files_.end()) return;
    for (Held& held : file->second.held) {
      if (held.client_id != client_id || held.holder.owner != owner) continue;
      held.client_id = {};
      if (held.kind != kRecovers) continue;
      for (const LockRange& range : held.ranges.ranges()) {
        AddUndo(file->second, held.holder, range);
        undoes = true;
      }
    }
    for (Broken& each : file->second.broken) {
      if (each.repairer == LockOwner{client_id, owner}) each.repairer.reset();
    }
  }
  if (undoes) Wake();
}

void PersistentLocks::Arrived(std::string_view client_name, const wire::Verifier& verifier) {
  if (!any_.load(std::memory_order_relaxed)) return;
  absl::MutexLock changing(&changing_);
  std::vector<std::pair<ObjectKey, File>> changed;
  size_t broken_files = 0;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [key, file] : files_) {
      const size_t broken = file.broken.size();
      const size_t undoing = file.undoing.size();
      Break(file, [&](const Held& held, const LockRange&) {
        return held.holder.client_name == client_name && held.holder.verifier != verifier;
      });
      if (file.broken.size() == broken && file.undoing.size() == undoing) continue;
      if (file.broken.size() > broken) ++broken_files;
      std::erase_if(file.held, [](const Held& held) { return held.ranges.empty(); });
      for (Held& held : file.held) {
        if (held.holder.client_name == client_name && held.holder.verifier != verifier) {
          held.client_id = {};
        }
      }
      changed.emplace_back(key, file);
    }
  }
  for (const auto& [key, file] : changed) {
    if (const absl::Status stored = Write(key, file, Nothing); !stored.ok()) {
      LogError(absl::StrCat("a lock of ", Text(client_name),
                            " is broken, but that could not be stored: ", stored.message()));
    }
  }
  if (!changed.empty()) Wake();
  if (broken_files > 0) {
    LogWarning(absl::StrCat(Text(client_name),
                            " is a new instance: persistent locks of the earlier "
                            "one on ",
                            broken_files,
                            " files are broken; reads and writes there "
                            "are refused until a client repairs them"));
  }
}

void PersistentLocks::EndClaims(absl::FunctionRef<bool(const ObjectKey& file)> ended) {
  if (!any_.load(std::memory_order_relaxed)) return;
  absl::MutexLock changing(&changing_);
  bool undoes = false;
  for (const ObjectKey& key : Files()) {
    if (!ended(key)) continue;
    absl::MutexLock lock(&mutex_);
    File& file = files_.find(key)->second;
    for (const Held& held : file.held) {
      if (!held.client_id.is_zero() || held.kind != kRecovers) continue;
      for (const LockRange& range : held.ranges.ranges()) {
        AddUndo(file, held.holder, range);
        undoes = true;
      }
    }
  }
  if (undoes) Wake();
}

// ---- For the administrator ---------------------------------------------------------------------

DafsStatus PersistentLocks::Forget(const ObjectKey& key, size_t* count) {
  absl::MutexLock changing(&changing_);
  File file = FileOf(key);
  *count = std::erase_if(file.broken, [](const Broken& each) { return !each.repairer; });
  return *count > 0 ? Replace(key, std::move(file)) : DafsStatus::kOk;
}

void PersistentLocks::Drop(const ObjectKey& key) {
  if (FileOf(key).empty()) return;
  absl::MutexLock changing(&changing_);
  Replace(key, {});
}

std::vector<ObjectKey> PersistentLocks::Files() const {
  std::vector<ObjectKey> keys;
  absl::ReaderMutexLock lock(&mutex_);
  keys.reserve(files_.size());
  for (const auto& [key, file] : files_) keys.push_back(key);
  return keys;
}

std::vector<PersistentLocks::Entry> PersistentLocks::List() const {
  std::vector<Entry> all;
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& [key, file] : files_) {
    for (const Held& held : file.held) {
      const State state = held.client_id.is_zero() ? State::kBreakable : State::kHeld;
      for (const LockRange& range : held.ranges.ranges()) {
        all.push_back({key, IsUndoing(file, range) ? State::kUndoing : state, held.kind,
                       held.holder.client_name, held.holder.owner, range});
      }
    }
    for (const Broken& each : file.broken) {
      const State state = each.repairer ? State::kInRepair : State::kBroken;
      all.push_back({key, IsUndoing(file, each.range) ? State::kUndoing : state, kPersists,
                     each.holder.client_name, each.holder.owner, each.range});
    }
  }
  return all;
}

}  // namespace dafs::server
