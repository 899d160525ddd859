// A change of names in a directory by this mount, from before the request to the server until after
// its reply. Decides which attributes of the directory the kernel gets next, and keeps
// WholeDirectories up to date.
// Belongs to the coroutine that makes the change.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "client/state/node.h"
#include "fuse/cache/attribute_cache.h"
#include "fuse/cache/directories/whole_directories.h"
#include "fuse/cache/inode_table.h"
#include "fuse/operations/shared/context.h"
#include "runtime/loop/loop.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

class DirectoryChange {
 public:
  // `appears`: the name that may exist from now on; empty: none.
  DirectoryChange(Context& context, const InodeView& directory, std::string_view appears = {})
      : attributes_(context.state.caches.attributes),
        whole_(context.state.caches.whole_directories),
        nodeid_(directory.nodeid),
        handle_(directory.handle),
        wants_after_(context.state.kernel.default_permissions &&
                     context.state.options.cache.dir_min > absl::ZeroDuration()),
        change_(attributes_.BeginChange(nodeid_, Loop::Now())),
        names_(whole_.Begin(handle_, appears)) {}
  ~DirectoryChange() { End(); }
  DirectoryChange(const DirectoryChange&) = delete;
  DirectoryChange& operator=(const DirectoryChange&) = delete;

  // AttributeCache::DirectoryRemoved was called for this change itself. Such a removal does not
  // make the attributes after the change stale.
  void CountRemoval() { ++removals_; }
  // The change was to remove `name`. `known`: it has, and the kernel holds the lock of the
  // directory until the call that made the change is answered.
  void Removed(std::string_view name, bool known) {
    vanished_ = name;
    if (!known) outcome_ = WholeDirectories::Outcome::kUnsure;
  }
  // Where the server's reply puts the directory's attributes after the change. Null: they are not
  // requested. The kernel drops those that it has when it changes a name there. If it checks
  // permissions itself, it requests them for the next path walk.
  client::Attributes* after() { return wants_after_ ? &after_ : nullptr; }
  // The server has replied. Called before the kernel is answered.
  void End() {
    if (ended_) return;
    ended_ = true;
    attributes_.EndChange(nodeid_, change_, std::move(after_), Loop::Now(), removals_);
    whole_.End(handle_, names_, vanished_, outcome_);
  }

 private:
  AttributeCache& attributes_;
  WholeDirectories& whole_;
  const uint64_t nodeid_;
  const wire::FileHandle handle_;
  const bool wants_after_;
  const OwnChanges::Change change_;
  const WholeDirectories::Change names_;
  std::string vanished_;
  WholeDirectories::Outcome outcome_ = WholeDirectories::Outcome::kKnown;
  client::Attributes after_;
  uint64_t removals_ = 0;
  bool ended_ = false;
};

}  // namespace dafs::fuse
