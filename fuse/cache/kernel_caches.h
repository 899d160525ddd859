// What a mount knows of the kernel's caches: its nodes, the names, attributes and pages that it
// has, and until when. The parts refer to each other, so they are made together.
// Thread-safe, as each part says.
#pragma once

#include "fuse/cache/absent_xattr_cache.h"
#include "fuse/cache/attribute_cache.h"
#include "fuse/cache/directories/directory_names.h"
#include "fuse/cache/directories/whole_directories.h"
#include "fuse/cache/inode_table.h"
#include "fuse/cache/kernel_pages.h"
#include "fuse/cache/promise_rules.h"
#include "fuse/cache/write_trackers.h"
#include "fuse/options/options.h"
#include "runtime/loop/loop.h"

namespace dafs::fuse {

struct KernelCaches {
  explicit KernelCaches(const CacheTimes& times)
      : attributes(inodes, times, rules), absent_xattrs(inodes, times, rules) {}

  // Decides by the server's promises how long the kernel may keep an answer.
  PromiseRules rules;
  // The nodes that the kernel knows, and what is cached about each.
  InodeTable inodes;
  AttributeCache attributes;
  DirectoryNames directory_names{Loop::Now()};
  WholeDirectories whole_directories;
  KernelPages pages{inodes};
  AbsentXattrCache absent_xattrs;
  WriteTrackers write_trackers{inodes};
};

}  // namespace dafs::fuse
