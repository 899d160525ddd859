// Tracks the bytes and the size that the server must restore if an AUTORECOVERY lock fails: which
// bytes of the file are saved, and the size that it had. Computes only; the bytes are in undo files
// (undo_log.h). Spec: 4.4.1.4.
//
// A byte is saved once for each lock, before its first change, so the order in which saved bytes
// are restored does not matter. The bytes from the end of the file to the end of the lock are saved
// as zeros when the lock first extends the file: further growth costs nothing.
//
// The size belongs to the file, not to a range. A rollback restores the size from before the lock
// changed it, but keeps what others have written beyond: the floor. It leaves the size to a lock of
// the same owner that still covers the bytes in question.
//
// Ranges are sets of bytes of the file: LockRanges whose ranges all have `write`. Values; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "wire/protocol/lock_ranges.h"

namespace dafs::server {

// No file has a byte after this one.
inline constexpr uint64_t kLastFileByte = INT64_MAX - 1;

// The bytes of the file that are under `locks`. A flock(2) lock stands for the whole file.
wire::LockRanges FileBytes(const wire::LockRanges& locks);
// `from` without `what`.
wire::LockRanges Minus(wire::LockRanges from, const wire::LockRanges& what);
// The intersection.
wire::LockRanges Common(const wire::LockRanges& a, const wire::LockRanges& b);

// The bytes from `first` to before `end` are about to change. `shrinks`: they are cut off, and
// `end` is the size of the file.
struct UndoChange {
  uint64_t first = 0;
  uint64_t end = 0;
  bool shrinks = false;
};

struct UndoRecord {
  struct Size {
    uint64_t old_size = 0;
    uint64_t floor = 0;  // the end of what others have written since
    friend bool operator==(const Size&, const Size&) = default;
  };
  wire::LockRanges data;   // their old bytes are in the undo file
  wire::LockRanges zeros;  // read as zeros, or did not exist
  std::optional<Size> size;

  bool empty() const { return data.empty() && zeros.empty() && !size; }
};

// Whether `change` by the holder of `locked` changes a byte that is not saved, or the size for the
// first time. Cheap: two searches for each range of `locked` that it touches.
bool MustSave(const UndoRecord& record, const wire::LockRanges& locked, const UndoChange& change);

// The bytes to save before `change`. More than the change, so that neighbouring writes need no
// further step: whole blocks of kSavedAtOnce, but only locked bytes.
inline constexpr uint64_t kSavedAtOnce = 65536;
UndoRecord StepsFor(const UndoRecord& record, const wire::LockRanges& locked,
                    const UndoChange& change, uint64_t file_size);
void Add(UndoRecord& record, const UndoRecord& steps);

// The floor after `change`, of which the bytes `locked` are under the lock itself.
uint64_t FloorAfter(const UndoRecord::Size& size, const wire::LockRanges& locked,
                    const UndoChange& change);

// How to undo the changes of `undone`, while the owner keeps its locks of
// `kept`.
struct UndoPlan {
  std::vector<wire::LockRange> copies;
  std::vector<wire::LockRange> zeros;
  std::optional<uint64_t> new_size;  // unless it is to stay
  UndoRecord after;                  // the record once that is done
};
UndoPlan PlanUndo(const UndoRecord& record, const wire::LockRanges& undone,
                  const wire::LockRanges& kept, uint64_t file_size);

// The record after the owner has unlocked all but `kept`, so that the other changes are final.
// `file_size`: that they have led to.
UndoRecord AfterCommit(const UndoRecord& record, const wire::LockRanges& kept, uint64_t file_size);

}  // namespace dafs::server
