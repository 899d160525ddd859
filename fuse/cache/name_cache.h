// The names that the kernel may still use for each node (node_names.h), and the renames and
// removals of this mount that move them.
//
// Thread-safe; nothing blocks. Names of a node that is not known are ignored, and it has none.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "fuse/cache/inode_table.h"
#include "fuse/cache/node_names.h"
#include "fuse/cache/own_moves.h"
#include "fuse/cache/place.h"

namespace dafs::fuse {

class NameCache {
 public:
  explicit NameCache(InodeTable& inodes) : inodes_(inodes) {}
  NameCache(const NameCache&) = delete;
  NameCache& operator=(const NameCache&) = delete;

  // The kernel may use `place` as a name of the file, which has CHANGE `change`, until `until`. The
  // server said so in its reply to a request sent at `asked`.
  void Sent(uint64_t nodeid, const Place& place, uint64_t change, absl::Time asked,
            absl::Time until);
  // As the functions of NodeNames with these names.
  Places LikelyOld(uint64_t nodeid, absl::Time now);
  Places NotSeenAt(uint64_t nodeid, uint64_t change, absl::Time now);
  void Confirm(uint64_t nodeid, const Place& place, uint64_t change, absl::Time now);
  void Lose(uint64_t nodeid, const Place& place);
  bool AnyLost(uint64_t nodeid, uint64_t change, absl::Time now) const;

  // The names of all nodes of a shard of the table that the kernel may use at `now`.
  std::vector<Place> Believed(uint64_t shard, absl::Time now) const;

  // Renames and removals that the kernel has applied already.
  OwnMoves& own_moves() { return own_moves_; }

 private:
  InodeTable& inodes_;
  OwnMoves own_moves_;
};

}  // namespace dafs::fuse
