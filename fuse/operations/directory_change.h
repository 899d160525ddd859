// A change of names in a directory by this mount, from before the request to the server until after
// its reply. Decides which attributes of the directory the kernel gets next.
// Belongs to the coroutine that makes the change.
#pragma once

#include <cstdint>
#include <utility>

#include "client/state/node.h"
#include "fuse/cache/attribute_cache.h"
#include "fuse/operations/context.h"
#include "runtime/loop.h"

namespace dafs::fuse {

class DirectoryChange {
 public:
  DirectoryChange(Context& context, uint64_t nodeid)
      : attributes_(context.state.attributes),
        nodeid_(nodeid),
        wants_after_(context.attributes.WantsDirectoryAfterChange()),
        change_(attributes_.BeginChange(nodeid, Loop::Now())) {}
  ~DirectoryChange() { End(); }
  DirectoryChange(const DirectoryChange&) = delete;
  DirectoryChange& operator=(const DirectoryChange&) = delete;

  // AttributeCache::DirectoryRemoved was called for this change itself. Such a removal does not
  // make the attributes after the change stale.
  void CountRemoval() { ++removals_; }
  // Where the server's reply puts the directory's attributes after the change. Null: they are not
  // worth requesting.
  client::Attributes* after() { return wants_after_ ? &after_ : nullptr; }
  // The server has replied. Called before the kernel is answered.
  void End() {
    if (ended_) return;
    ended_ = true;
    attributes_.EndChange(nodeid_, change_, std::move(after_), Loop::Now(), removals_);
  }

 private:
  AttributeCache& attributes_;
  const uint64_t nodeid_;
  const bool wants_after_;
  const OwnChanges::Change change_;
  client::Attributes after_;
  uint64_t removals_ = 0;
  bool ended_ = false;
};

}  // namespace dafs::fuse
