// This mount's changes to one node: of its data or attributes, or of names in a directory. They
// order the replies of the server: a reply to a request from before a change is outdated.
//
// Not thread-safe: InodeTable keeps it under a shard's mutex.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace dafs::fuse {

class OwnChanges {
 public:
  // The state of this mount's changes to a node when a request about it was sent to the server.
  struct Moment {
    uint64_t change_count = 0;
    uint64_t removals = 0;  // of names that may be those of such a node
  };
  // A change by this mount of names in a directory, or of data of a file, while it is in progress.
  struct Change {
    uint64_t number = 0;  // 0: the node was not known when the change began
    bool alone = false;   // no other was in progress when it began
    absl::Time at;
    Moment begun;
    bool shows_set_id = false;  // KernelView::shows_set_id when it began
  };

  // The node has changed, or is about to.
  void MarkChanged(absl::Time now) {
    ++change_count_;
    changed_at_ = now;
  }
  // Begins and ends a change, and counts as one. Begin leaves to the caller what concerns
  // removals and the kernel. End returns false if `change` is not one of this node: the node was
  // forgotten meanwhile.
  Change Begin(absl::Time now);
  bool End(const Change& change, absl::Time now);
  // Whether this mount has changed nothing else about the node since `change` began.
  bool Undisturbed(const Change& change) const {
    return change.alone && change_count_ == change.begun.change_count;
  }

  // Whether a change has begun and not ended.
  bool in_progress() const { return begun_ != ended_; }
  // When the node was last changed.
  absl::Time changed_at() const { return changed_at_; }
  // How often it was changed.
  uint64_t change_count() const { return change_count_; }

 private:
  absl::Time changed_at_ = absl::InfinitePast();
  uint64_t begun_ = 0;
  uint64_t ended_ = 0;
  uint64_t change_count_ = 0;
};

}  // namespace dafs::fuse
