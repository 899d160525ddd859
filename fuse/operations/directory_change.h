// A change of names in a directory by us, from before the server is asked to after its answer: what
// the kernel is to be told of the directory next is settled here.
// Belongs to the coroutine that makes the change.
#pragma once

#include <cstdint>

#include "fuse/cache/inode_table.h"
#include "fuse/operations/operations.h"
#include "runtime/loop.h"
#include "wire/protocol/attributes.h"

namespace dafs::fuse {

class Operations::DirectoryChange {
 public:
  DirectoryChange(Operations& operations, uint64_t nodeid)
      : inodes_(operations.state_.inodes),
        nodeid_(nodeid),
        wants_after_(operations.WantsDirectoryAfterChange()),
        change_(inodes_.BeginChange(nodeid, dat::Loop::Now())) {}
  ~DirectoryChange() { End(); }
  DirectoryChange(const DirectoryChange&) = delete;
  DirectoryChange& operator=(const DirectoryChange&) = delete;

  // InodeTable::DirectoryRemoved was called for this change: what it leaves is not older than that.
  void CountRemoval() { ++removals_; }
  // For the server's answer: the directory's attributes behind the change. Null: not worth asking.
  wire::FileAttributes* after() { return wants_after_ ? &after_ : nullptr; }
  // The change was answered. Before the kernel is.
  void End() {
    if (ended_) return;
    ended_ = true;
    inodes_.EndChange(nodeid_, change_, std::move(after_), dat::Loop::Now(), removals_);
  }

 private:
  InodeTable& inodes_;
  const uint64_t nodeid_;
  const bool wants_after_;
  const InodeTable::Change change_;
  wire::FileAttributes after_;
  uint64_t removals_ = 0;
  bool ended_ = false;
};

}  // namespace dafs::fuse
