// A change of attributes by this mount, from before the request to the server until after its
// reply. For a directory it counts as a change in progress, because the kernel holds the lock of
// the directory meanwhile: PromiseBreaks must not wait for that lock. Belongs to the coroutine that
// makes the change.
#pragma once

#include <cstdint>
#include <utility>

#include "fuse/cache/attribute_cache.h"
#include "fuse/cache/inode_table.h"
#include "fuse/operations/shared/context.h"
#include "runtime/loop/loop.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

class AttributeChange {
 public:
  AttributeChange(Context& context, const InodeView& node)
      : attributes_(context.state.caches.attributes),
        nodeid_(node.nodeid),
        is_directory_(node.type == wire::ObjectType::kDir) {
    if (is_directory_) {
      change_ = attributes_.BeginChange(nodeid_, Loop::Now());
    } else {
      attributes_.MarkChanged(nodeid_, Loop::Now());
    }
  }
  ~AttributeChange() { End(); }
  AttributeChange(const AttributeChange&) = delete;
  AttributeChange& operator=(const AttributeChange&) = delete;

  // The server has replied. Called before the kernel is answered.
  void End() {
    if (std::exchange(ended_, true)) return;
    if (is_directory_) {
      attributes_.EndChange(nodeid_, change_, {}, Loop::Now());
    } else {
      attributes_.MarkChanged(nodeid_, Loop::Now());
    }
  }

 private:
  AttributeCache& attributes_;
  const uint64_t nodeid_;
  const bool is_directory_;
  OwnChanges::Change change_;
  bool ended_ = false;
};

}  // namespace dafs::fuse
