#include "server/store/holdings/undo/undo_record.h"

#include <algorithm>

namespace dafs::server {

using wire::LockRange;
using wire::LockRanges;

namespace {

void Include(LockRanges& ranges, uint64_t first, uint64_t last) {
  ranges.Set({first, last, /*write=*/true});
}

// The ranges of `set` that overlap the bytes from `first` to `last`, clipped to them.
template <class Function>
void ForEachIn(const LockRanges& set, uint64_t first, uint64_t last, Function&& function) {
  const std::vector<LockRange>& ranges = set.ranges();
  auto it = std::lower_bound(ranges.begin(), ranges.end(), first,
                             [](const LockRange& r, uint64_t byte) { return r.last < byte; });
  for (; it != ranges.end() && it->first <= last; ++it) {
    function(std::max(it->first, first), std::min(it->last, last));
  }
}

bool Overlaps(const LockRanges& set, uint64_t first, uint64_t last) {
  return set.FindConflict({first, last, /*write=*/true}) != nullptr;
}

// The bytes from `first` to `last` that are not saved.
LockRanges Missing(const UndoRecord& record, uint64_t first, uint64_t last) {
  LockRanges missing;
  Include(missing, first, last);
  const auto clear = [&](uint64_t from, uint64_t to) { missing.Clear(from, to); };
  ForEachIn(record.data, first, last, clear);
  ForEachIn(record.zeros, first, last, clear);
  return missing;
}

// Whether one range of `set` has all of these bytes.
bool HasWhole(const LockRanges& set, uint64_t first, uint64_t last) {
  bool has = false;
  ForEachIn(set, first, last,
            [&](uint64_t from, uint64_t to) { has = has || (from == first && to == last); });
  return has;
}

// The size after an undo; nullopt: it does not change, or is left to a lock that is kept.
std::optional<uint64_t> SizeAfterUndo(const UndoRecord& record, const LockRanges& kept,
                                      uint64_t file_size) {
  if (!record.size) return std::nullopt;
  const auto [old_size, floor] = *record.size;
  const uint64_t least = std::min(old_size, file_size);
  const uint64_t most = std::max(old_size, file_size);
  if (least < most && Overlaps(kept, least, most - 1)) return std::nullopt;
  return file_size > old_size ? std::min(file_size, std::max(old_size, floor)) : old_size;
}

}  // namespace

LockRanges FileBytes(const LockRanges& locks) {
  LockRanges bytes;
  for (const LockRange& lock : locks.ranges()) {
    if (lock.is_flock()) {
      Include(bytes, 0, kLastFileByte);
    } else if (lock.first <= kLastFileByte) {
      Include(bytes, lock.first, std::min(lock.last, kLastFileByte));
    }
  }
  return bytes;
}

LockRanges Minus(LockRanges from, const LockRanges& what) {
  for (const LockRange& range : what.ranges()) from.Clear(range.first, range.last);
  return from;
}

LockRanges Common(const LockRanges& a, const LockRanges& b) {
  LockRanges common;
  for (const LockRange& range : b.ranges()) {
    ForEachIn(a, range.first, range.last,
              [&](uint64_t first, uint64_t last) { Include(common, first, last); });
  }
  return common;
}

bool MustSave(const UndoRecord& record, const LockRanges& locked, const UndoChange& change) {
  if (change.first >= change.end) return false;
  bool must = false;
  ForEachIn(locked, change.first, change.end - 1, [&](uint64_t first, uint64_t last) {
    if (must) return;
    must = (change.shrinks && !record.size) ||
           (!HasWhole(record.data, first, last) && !HasWhole(record.zeros, first, last) &&
            !Missing(record, first, last).empty());
  });
  return must;
}

UndoRecord StepsFor(const UndoRecord& record, const LockRanges& locked, const UndoChange& change,
                    uint64_t file_size) {
  UndoRecord steps;
  if (change.first >= change.end) return steps;
  for (const LockRange& lock : locked.ranges()) {
    const uint64_t first = std::max(change.first, lock.first);
    const uint64_t last = std::min(change.end - 1, lock.last);
    if (first > last) continue;
    if (first < file_size) {
      const uint64_t from = std::max(lock.first, first - first % kSavedAtOnce);
      const uint64_t to = std::min({lock.last, last | (kSavedAtOnce - 1), file_size - 1});
      const LockRanges missing = Missing(record, from, to);
      for (const LockRange& each : missing.ranges()) Include(steps.data, each.first, each.last);
    }
    if (last >= file_size) {
      const uint64_t from = std::max(lock.first, file_size);
      const LockRanges missing = Missing(record, from, lock.last);
      for (const LockRange& each : missing.ranges()) Include(steps.zeros, each.first, each.last);
      if (!record.size && !steps.size) steps.size = {file_size, 0};
    }
    if (change.shrinks && !record.size) {
      const uint64_t old_size = std::min(file_size, lock.last + 1);
      if (!steps.size || steps.size->old_size < old_size) steps.size = {old_size, 0};
    }
  }
  return steps;
}

void Add(UndoRecord& record, const UndoRecord& steps) {
  for (const LockRange& range : steps.data.ranges()) record.data.Set(range);
  for (const LockRange& range : steps.zeros.ranges()) record.zeros.Set(range);
  if (!record.size) record.size = steps.size;
}

uint64_t FloorAfter(const UndoRecord::Size& size, const LockRanges& locked,
                    const UndoChange& change) {
  if (change.shrinks || change.end <= std::max(size.old_size, size.floor)) return size.floor;
  if (HasWhole(locked, change.first, change.end - 1)) return size.floor;
  LockRanges others;
  Include(others, change.first, change.end - 1);
  others = Minus(std::move(others), locked);
  if (others.empty()) return size.floor;
  const uint64_t end = others.ranges().back().last + 1;
  return end > size.old_size ? std::max(size.floor, end) : size.floor;
}

UndoPlan PlanUndo(const UndoRecord& record, const LockRanges& undone, const LockRanges& kept,
                  uint64_t file_size) {
  UndoPlan plan;
  plan.copies = Common(record.data, undone).ranges();
  plan.zeros = Common(record.zeros, undone).ranges();
  plan.new_size = SizeAfterUndo(record, kept, file_size);
  const LockRanges gone = Minus(undone, kept);
  plan.after.data = Minus(record.data, gone);
  plan.after.zeros = Minus(record.zeros, gone);
  if (!plan.new_size) plan.after.size = record.size;
  return plan;
}

UndoRecord AfterCommit(const UndoRecord& record, const LockRanges& kept, uint64_t file_size) {
  if (kept.empty()) return {};
  UndoRecord after = record;
  after.data = Common(record.data, kept);
  after.zeros = Common(record.zeros, kept);
  if (!after.size) return after;
  auto& [old_size, floor] = *after.size;
  LockRanges everything;
  Include(everything, 0, kLastFileByte);
  const LockRanges final_bytes = Minus(std::move(everything), kept);
  if (file_size > old_size) {
    ForEachIn(final_bytes, old_size, file_size - 1,
              [&, &most = floor](uint64_t, uint64_t last) { most = std::max(most, last + 1); });
  } else if (file_size < old_size && Overlaps(final_bytes, old_size - 1, old_size - 1)) {
    // The end of the file stays cut off.
    uint64_t cut = file_size;
    ForEachIn(kept, file_size, old_size - 1, [&](uint64_t, uint64_t last) { cut = last + 1; });
    old_size = cut;
  }
  return after;
}

}  // namespace dafs::server
