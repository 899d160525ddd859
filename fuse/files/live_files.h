// The open files, open directories and lock owners of a mount in its live record
// (fuse/cache/record/live_record.h), for the program that continues it after a crash
// (docs/restart.md).
//
// An item is recorded before the kernel gets its handle. When the kernel releases it, it is marked
// as ended before the answer, and dropped when its open at the server is closed. So a new program
// knows which opens it has to close.
// Thread-safe, but one caller at a time
// may change an item. Nothing blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fuse/cache/record/live_record.h"
#include "fuse/files/open_files.h"
#include "fuse/files/saved_files.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

class LiveFiles {
 public:
  // `record` must outlive this; null: nothing is recorded.
  explicit LiveFiles(LiveRecord* record) : record_(record) {}

  // A new open file. Sets its slot.
  void Put(uint64_t fh, OpenState& open) const;
  // A write behind through it has failed.
  void NoteFailure(const OpenState& open) const;
  void End(const OpenState& open) const;
  void Drop(const OpenState& open) const;

  // `data`, from `offset` of the file on, is written behind: recorded before the kernel gets its
  // answer, and dropped when the server has it. Sets the slot. False: it cannot be recorded, so a
  // kill would lose it.
  bool PutPiece(const OpenState& open, uint64_t offset, std::span<const std::byte> data,
                LiveRecord::Slot* slot) const;
  void Lengthen(LiveRecord::Slot piece, uint64_t size) const;

  // The directory is open, or its listing has changed. Sets its slot.
  void Put(uint64_t fh, DirectoryState& open) const;
  void Drop(const DirectoryState& open) const;

  // Returns the new slot of an owner. `before`: its present slot, or 0.
  LiveRecord::Slot Put(const SavedLockOwner& owner, bool ended, LiveRecord::Slot before) const;
  void End(LiveRecord::Slot owner) const;
  void Drop(LiveRecord::Slot slot) const;  // of an owner or a piece

  struct Left {
    std::vector<SavedFile> files;
    std::vector<SavedDirectory> directories;
    std::vector<SavedLockOwner> owners;
    std::vector<SavedPiece> pieces;
    // The opens of the client whose CLOSE was due or under way.
    std::vector<wire::StateId> ended;
  };
  // Reads the items of a killed process. Those that do not decode are left out.
  static Left Read(std::span<const LiveRecord::Item> items);

 private:
  LiveRecord* record_;
};

// The state of an open file or directory, for a record.
SavedFile Saved(uint64_t fh, const OpenState& open);
SavedDirectory Saved(uint64_t fh, const DirectoryState& open);

}  // namespace dafs::fuse
