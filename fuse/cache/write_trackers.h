// The late write errors of each file (client/state/data/write_tracker.h), until an fsync has
// reported them. A close reports them too, and does not end them. A node and the open files that
// write share its tracker: a write may come through any of these, and may outlive the node.
//
// WriteTrackers is thread-safe; nothing blocks. KeptTrackers is not: InodeTable keeps one in each
// shard, under its mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "client/state/data/write_tracker.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

class InodeTable;

// The trackers of files that no longer have a node. If the kernel looks such a file up again, the
// file keeps its tracker while that is in use, or has an error that no fsync has reported.
class KeptTrackers {
 public:
  static constexpr size_t kMost = 256;

  // Keeps `tracker` (null: the file has none) if it is worth it.
  void Keep(const wire::FileHandle& file, const std::shared_ptr<client::WriteTracker>& tracker);
  // Takes out the tracker of the file. Null: none is kept.
  std::shared_ptr<client::WriteTracker> Take(const wire::FileHandle& file);
  // Whether one has an error that no fsync has reported.
  bool HasUnseenError() const;

 private:
  absl::flat_hash_map<wire::FileHandle, std::shared_ptr<client::WriteTracker>> kept_;
};

class WriteTrackers {
 public:
  explicit WriteTrackers(InodeTable& inodes) : inodes_(inodes) {}
  WriteTrackers(const WriteTrackers&) = delete;
  WriteTrackers& operator=(const WriteTrackers&) = delete;

  // Never null: if the node is not known, the tracker is the caller's alone.
  std::shared_ptr<client::WriteTracker> Of(uint64_t nodeid);
  // Whether the node may be open: each open file shares its tracker. False is certain. Cheap.
  bool MayBeOpen(uint64_t nodeid) const;
  // Calls WriteTracker::NoteOwnerChange, if the node has a tracker.
  void NoteOwnerChange(uint64_t nodeid);

 private:
  InodeTable& inodes_;
};

}  // namespace dafs::fuse
