// Which version of a file the kernel's page cache has. It may be older than the attributes sent
// since: the kernel keeps its pages across an open only if the file still has that version.
//
// Under a delegation the version is not known, but only this mount changes the file. Then the
// kernel may keep its pages if none is older than the delegation, and none was bypassed: opens to
// append or with O_DIRECT write past the pages.
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
      return inode != nullptr && inode->pages.has_change && inode->pages.change == change;
    });
  }
  // The kernel has no page older than `change`. A value smaller than the last one does no harm.
  void Are(uint64_t nodeid, uint64_t change) {
    inodes_.With(nodeid, [&](Inode* inode) {
      if (inode == nullptr) return;
      inode->pages.change = change;
      inode->pages.has_change = true;
    });
  }

  // An open of the kernel begins; `bypasses`: it writes past the pages. Returns what EndOpen needs.
  uint16_t BeginOpen(uint64_t nodeid, bool bypasses) {
    return inodes_.With(nodeid, [&](Inode* inode) -> uint16_t {
      if (inode == nullptr) return 0;
      NodePages& pages = inode->pages;
      if (bypasses) {
        if (pages.bypassing < kUncounted) ++pages.bypassing;
        ++pages.bypasses;
        pages.delegation = 0;
      }
      return pages.bypasses;
    });
  }
  // The kernel has released the open, which is under `delegation` (0: none). So it has kept or
  // dropped its pages as the answer to the open said.
  void EndOpen(uint64_t nodeid, uint64_t delegation, uint16_t begun, bool bypassed) {
    inodes_.With(nodeid, [&](Inode* inode) {
      if (inode == nullptr) return;
      NodePages& pages = inode->pages;
      if (bypassed) {
        if (pages.bypassing > 0 && pages.bypassing < kUncounted) --pages.bypassing;
        ++pages.bypasses;
        pages.delegation = 0;
      } else if (delegation != 0 && pages.bypassing == 0 && pages.bypasses == begun) {
        pages.delegation = static_cast<uint32_t>(delegation);
      }
    });
  }
  // Whether an open has written past the pages, or may have, since BeginOpen returned `begun`.
  bool WereBypassed(uint64_t nodeid, uint16_t begun) const {
    return inodes_.With(nodeid, [&](const Inode* inode) {
      return inode == nullptr || inode->pages.bypassing > 0 || inode->pages.bypasses != begun;
    });
  }
  // Whether the kernel may keep its pages for an open under `delegation`.
  bool AreOf(uint64_t nodeid, uint64_t delegation) const {
    return inodes_.With(nodeid, [&](const Inode* inode) {
      return inode != nullptr && delegation != 0 &&
             inode->pages.delegation == static_cast<uint32_t>(delegation);
    });
  }

 private:
  static constexpr uint8_t kUncounted = 255;

  InodeTable& inodes_;
};

}  // namespace dafs::fuse
