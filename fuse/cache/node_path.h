// The path of a node, for reports. Any thread; nothing blocks.
#pragma once

#include <cstdint>
#include <string>

#include "fuse/cache/inode_table.h"

namespace dafs::fuse {

// The path from the root of the mount, such as "/dir/file", by the names under which the node and
// its parents were last found. They may have been renamed since. Empty: some parent is unknown.
std::string PathOf(const InodeTable& inodes, uint64_t nodeid);

}  // namespace dafs::fuse
