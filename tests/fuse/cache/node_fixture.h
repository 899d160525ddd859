// A table of nodes with its root, and the classes that keep their part of each node in it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "absl/time/time.h"
#include "client/state/node.h"
#include "fuse/cache/attribute_cache.h"
#include "fuse/cache/inode_table.h"
#include "fuse/cache/kernel_pages.h"
#include "fuse/cache/promise_rules.h"
#include "fuse/cache/write_trackers.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

inline wire::FileHandle Handle(uint8_t number) {
  wire::FileHandle handle;
  handle.fileid.bytes[0] = number;
  handle.fileid.bytes[1] = 1;
  return handle;
}

inline client::Attributes File(uint64_t change, wire::ObjectType type = wire::ObjectType::kReg) {
  client::Attributes attributes;
  attributes.set(wire::kFattrObjectType | wire::kFattrChange | wire::kFattrFileId);
  attributes.object_type = type;
  attributes.change = change;
  attributes.file_id = 77;
  return attributes;
}

class NodeFixture : public ::testing::Test {
 protected:
  NodeFixture() { table_.SetRoot(Handle(0), File(1, wire::ObjectType::kDir)); }

  const absl::Time start_ = absl::UnixEpoch() + absl::Hours(1);
  InodeTable table_;
  PromiseRules rules_;
  AttributeCache attributes_{table_, CacheTimes(), rules_};
  KernelPages pages_{table_};
  WriteTrackers write_trackers_{table_};
};

}  // namespace dafs::fuse
