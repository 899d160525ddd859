#include "fuse/cache/node_path.h"

namespace dafs::fuse {
namespace {

// Names change while they are read, so parents could form a circle.
constexpr int kMostParents = 512;

}  // namespace

std::string PathOf(const InodeTable& inodes, uint64_t nodeid) {
  if (nodeid == kRootNode) return "/";
  std::string path;
  for (int i = 0; i < kMostParents; ++i) {
    const DentryName dentry = inodes.LatestDentryOf(nodeid);
    if (dentry.parent == 0) return "";
    path.insert(0, "/" + dentry.name);
    if (dentry.parent == kRootNode) return path;
    nodeid = dentry.parent;
  }
  return "";
}

}  // namespace dafs::fuse
