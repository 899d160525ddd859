// Which version of a file the kernel's page cache has. It may be older than the attributes sent
// since: the kernel keeps its pages across an open only if the file still has that version.
//
// Thread-safe; nothing blocks.
#pragma once

#include <cstdint>

#include "fuse/cache/inode_table.h"

namespace dafs::fuse {

class KernelPages {
 public:
  explicit KernelPages(InodeTable& inodes) : inodes_(inodes) {}
  KernelPages(const KernelPages&) = delete;
  KernelPages& operator=(const KernelPages&) = delete;

  // Whether all pages of the kernel have `change`.
  bool AreCurrent(uint64_t nodeid, uint64_t change) const {
    return inodes_.With(nodeid, [&](const Inode* inode) {
      return inode != nullptr && inode->pages_change == change;
    });
  }
  // The kernel has no page older than `change`. A value smaller than the last one does no harm.
  void Are(uint64_t nodeid, uint64_t change) {
    inodes_.With(nodeid, [&](Inode* inode) {
      if (inode != nullptr) inode->pages_change = change;
    });
  }

 private:
  InodeTable& inodes_;
};

}  // namespace dafs::fuse
