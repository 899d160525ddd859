// The record of one node that the kernel knows. Each part is a class of its own, and the class over
// the table that uses the part documents it.
//
// Not thread-safe: InodeTable keeps it under a shard's mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "client/state/data/write_tracker.h"
#include "fuse/cache/absent_xattr_cache.h"
#include "fuse/cache/directories/inode_dentries.h"
#include "fuse/cache/held_promise.h"
#include "fuse/cache/kernel_view.h"
#include "fuse/cache/latest_attributes.h"
#include "fuse/cache/own_changes.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

// The thread that found a name, and when.
struct Asker {
  uint32_t thread = 0;  // 0: found without a lookup
  absl::Time at = absl::InfinitePast();
};

// See KernelPages. Packed, because the kernel may have many nodes.
struct NodePages {
  uint64_t change = 0;      // of all pages, if known
  uint32_t delegation = 0;  // that no page is older than: the low bits of its number; 0: none
  uint16_t bypasses = 0;    // how often an open that bypasses the pages began or ended
  uint8_t bypassing = 0;    // such opens now; 255: so many that they are not counted any more
  bool has_change = false;
};

struct Inode {
  wire::FileHandle handle;
  wire::ObjectType type = wire::ObjectType::kInvalid;
  uint64_t file_id = 0;
  uint64_t lookups = 0;          // by the kernel
  std::unique_ptr<Asker> moved;  // the lookup that found another parent; null: accepted
  InodeDentries names;           // EntryReplies, HasLostName
  KernelView kernel;             // AttributeCache
  OwnChanges changes;            // AttributeCache
  LatestAttributes latest;       // AttributeCache
  HeldPromise promised;          // AttributeCache
  AbsentXattrsOfNode absences;   // AbsentXattrCache
  NodePages pages;               // KernelPages
  uint32_t live_slot = 0;        // LiveNodes
  std::shared_ptr<client::WriteTracker> writes;  // WriteTrackers; shared with open files
};

}  // namespace dafs::fuse
