#include "server/store/access/locks/undo_save.h"

#include <vector>

namespace dafs::server {

using wire::DafsStatus;

namespace {

const wire::LockRanges& WholeFile() {
  static const wire::LockRanges& whole = *new wire::LockRanges([] {  // never destroyed
    wire::LockRanges ranges;
    ranges.Set({0, kLastFileByte, /*write=*/true});
    return ranges;
  }());
  return whole;
}

}  // namespace

bool MustSaveBefore(const UndoSaves& saves, const Caller& caller, const ObjectKey& file,
                    const UndoChange& change) {
  if (!saves.locks.MayConcern(file) || change.first >= change.end) return false;
  bool must = false;
  saves.locks.VisitRecovering(
      caller, file, [&](const LockHolder& holder, bool is_own, const wire::LockRanges& ranges) {
        if (must) return;
        // As FileBytes, but without a copy: `change` has no bytes beyond those of a file.
        const bool has_flock = !ranges.empty() && ranges.ranges().back().is_flock();
        const wire::LockRanges* bytes = has_flock ? &WholeFile() : &ranges;
        must = saves.log.MustSave(file, holder, is_own ? bytes : nullptr, change);
      });
  return must;
}

DafsStatus SaveBefore(const UndoSaves& saves, const Caller& caller, Object& file,
                      const UndoChange& change, bool* has_saved) {
  *has_saved = MustSaveBefore(saves, caller, file.key(), change);
  if (!*has_saved) return DafsStatus::kOk;
  std::vector<UndoLog::Lock> locks;
  saves.locks.VisitRecovering(
      caller, file.key(),
      [&](const LockHolder& holder, bool is_own, const wire::LockRanges& ranges) {
        const wire::LockRanges bytes = FileBytes(ranges);
        for (UndoLog::Lock& each : locks) {
          if (each.holder != holder) continue;
          for (const wire::LockRange& range : bytes.ranges()) each.bytes.Set(range);
          return;
        }
        locks.push_back({holder, bytes, is_own});
      });
  return saves.log.Save(file, locks, change);
}

bool HasRecoveringFrom(const UndoSaves& saves, const Caller& caller, const ObjectKey& file,
                       uint64_t first) {
  if (!saves.locks.MayConcern(file)) return false;
  bool has = false;
  saves.locks.VisitRecovering(
      caller, file, [&](const LockHolder&, bool, const wire::LockRanges& ranges) {
        const wire::LockRanges bytes = FileBytes(ranges);
        has = has || (!bytes.empty() && bytes.ranges().back().last >= first);
      });
  return has;
}

}  // namespace dafs::server
