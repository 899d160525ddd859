// The nodes of a mount in its live record (live_record.h). Called by InodeTable under a shard's
// mutex.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fuse/cache/inode.h"
#include "fuse/cache/record/live_record.h"

namespace dafs::fuse {

class LiveNodes {
 public:
  // `record` must outlive this; null: nothing is recorded.
  explicit LiveNodes(LiveRecord* record) : record_(record) {}

  // The node is new, or its type or file id has changed. Sets its slot.
  void Put(uint64_t nodeid, Inode& inode);
  // The kernel has looked it up, or forgotten some lookups.
  void Count(const Inode& inode) {
    if (inode.live_slot != 0) record_->SetCount(inode.live_slot, inode.lookups);
  }
  void Drop(const Inode& inode) {
    if (inode.live_slot != 0) record_->Drop(inode.live_slot);
  }
  void ReleaseUnused() {
    if (record_ != nullptr) record_->ReleaseUnused();
  }

  struct Node {
    uint64_t nodeid = 0;
    wire::FileHandle handle;
    wire::ObjectType type = wire::ObjectType::kInvalid;
    uint64_t file_id = 0;
    uint64_t lookups = 0;
  };
  // The nodes that a killed process has left.
  static std::vector<Node> Of(std::span<const LiveRecord::Item> items);

 private:
  LiveRecord* record_;
};

}  // namespace dafs::fuse
