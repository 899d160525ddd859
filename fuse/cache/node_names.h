// The names of one node that the kernel may believe in, and as of which CHANGE each was last known
// to lead to the node: whoever opens the node may have come by any of them, and FUSE's OPEN does
// not say by which. A file whose CHANGE is another since may have lost the name to another file.
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
  // Of a file with more names than that the further ones are not looked up, but taken for lost when
  // its CHANGE is another.
  static constexpr size_t kMost = 16;

  // Where the node was found last, whatever the kernel believes. Empty: nowhere.
  const Place& latest() const { return latest_.place; }
  void FoundAt(const Place& place, absl::Time now);
  // Of a directory: the kernel has it under its latest name only.
  void DropOthers() { others_.reset(); }

  // The kernel is told that `place` leads to the node, and believes it until `until`. So it was
  // when the server was asked, at `seen` or later, and the node had this CHANGE behind that.
  void Told(const Place& place, uint64_t change, absl::Time seen, absl::Time until);

  // The names that the kernel may still believe in at `now`, once they have followed `moves`:
  // those that programs of this mount have moved, or that were seen before `touched`, when we have
  // changed the node: its CHANGE will be another.
  Places LikelyOld(const OwnMoves& moves, absl::Time touched, absl::Time now);
  // those that were not seen at this CHANGE.
  Places NotSeenAt(const OwnMoves& moves, uint64_t change, absl::Time now);

  // One of these still leads to the node, as of `change`, and was looked up at `now`.
  void Confirm(const Place& place, uint64_t change, absl::Time now);
  // It does not.
  void Lose(const Place& place);
  // Whether the kernel may believe in a name that leads elsewhere, the node having this CHANGE.
  bool AnyLost(uint64_t change, absl::Time now) const;

 private:
  struct Name {
    Place place;
    absl::Time seen = absl::InfinitePast();
    uint64_t change = 0;
    uint32_t believed_ms = 0;  // from `seen` on
    bool moved = false;        // by us, since
    bool lost = false;

    bool Believed(absl::Time now) const {
      return believed_ms != 0 && now <= seen + absl::Milliseconds(believed_ms);
    }
  };
  // What is not there for most nodes.
  struct Others {
    std::vector<Name> names;
    absl::Time crowd_until = absl::InfinitePast();  // names that found no room
    uint64_t crowd_change = 0;
    bool crowd_mixed = false;  // not all of them were seen at that
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
