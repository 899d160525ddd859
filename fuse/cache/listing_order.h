// The order in which a directory's nodes were listed, which is that in which programs visit them.
//
// Thread-safe; nothing blocks.
#pragma once

#include <cstdint>

#include "fuse/cache/inode_table.h"

namespace dafs::fuse {

class ListingOrder {
 public:
  explicit ListingOrder(InodeTable& inodes) : inodes_(inodes) {}
  ListingOrder(const ListingOrder&) = delete;
  ListingOrder& operator=(const ListingOrder&) = delete;

  // The kernel was sent `next` right after `nodeid` in a listing of their directory. 0: `nodeid`
  // was the last.
  void SetNext(uint64_t nodeid, uint64_t next) {
    inodes_.With(nodeid, [&](Inode* inode) {
      if (inode != nullptr) inode->next_listed = next;
    });
  }
  // 0: `nodeid` was the last, or its successor is unknown.
  uint64_t NextOf(uint64_t nodeid) const {
    return inodes_.With(
        nodeid, [](const Inode* inode) { return inode != nullptr ? inode->next_listed : 0; });
  }

 private:
  InodeTable& inodes_;
};

}  // namespace dafs::fuse
