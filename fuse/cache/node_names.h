// The names under which the kernel may find one node, each with the CHANGE at which it was last
// known to lead to the node. A program that opens the node may have used any of them, and FUSE's
// OPEN does not say which. If the file's CHANGE differs since, the name may belong to another file
// now.
//
// Not thread-safe: InodeTable keeps it under its mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "fuse/cache/own_moves.h"
#include "fuse/cache/place.h"

namespace dafs::fuse {

using Places = absl::InlinedVector<Place, 1>;

class NodeNames {
 public:
  // At most kMost names per file are revalidated. Further names are assumed stale once CHANGE
  // differs.
  static constexpr size_t kMost = 16;

  // Where the node was last found, even if the kernel no longer uses that name. Empty: nowhere.
  const Place& latest() const { return latest_.place; }
  void FoundAt(const Place& place, absl::Time now);
  // For a directory: the kernel has it under its latest name only.
  void DropOthers() { others_.reset(); }

  // The kernel may use `place` as a name of the node until `until`. The name led to the node at
  // `seen`, when the request was sent, or later. The node had this CHANGE after that.
  void Told(const Place& place, uint64_t change, absl::Time seen, absl::Time until);

  // Returns names that the kernel may still use at `now`, after applying `moves` to them: those
  // that programs of this mount have moved, and those last seen before `touched`. That is when this
  // mount changed the node, so its CHANGE will differ.
  Places LikelyOld(const OwnMoves& moves, absl::Time touched, absl::Time now);
  // The same for the names that were not seen at this CHANGE.
  Places NotSeenAt(const OwnMoves& moves, uint64_t change, absl::Time now);

  // Returns the names that the kernel may use at `now`.
  Places BelievedAt(absl::Time now) const;

  // A lookup at `now` found that `place` still leads to the node, which has CHANGE `change`.
  void Confirm(const Place& place, uint64_t change, absl::Time now);
  // A lookup found that `place` no longer leads to the node.
  void Lose(const Place& place);
  // Whether the kernel may still use a name that leads elsewhere, if the node has this CHANGE.
  bool AnyLost(uint64_t change, absl::Time now) const;

 private:
  struct Name {
    Place place;
    absl::Time seen = absl::InfinitePast();
    uint64_t change = 0;
    uint32_t believed_ms = 0;  // from `seen` on
    bool moved = false;        // by this mount, since `seen`
    bool lost = false;

    bool Believed(absl::Time now) const {
      return believed_ms != 0 && now <= seen + absl::Milliseconds(believed_ms);
    }
  };
  // Most nodes do not need this.
  struct Others {
    std::vector<Name> names;
    absl::Time crowd_until = absl::InfinitePast();  // of the names beyond kMost
    uint64_t crowd_change = 0;
    bool crowd_mixed = false;  // not all of these were seen at crowd_change
  };

  Name* Find(const Place& place);
  void Put(Name name, absl::Time now);
  void Follow(const OwnMoves& moves, absl::Time now);
  template <class F>
  Places Which(const OwnMoves& moves, absl::Time now, F&& wanted);

  Name latest_;
  std::unique_ptr<Others> others_;
};

}  // namespace dafs::fuse
