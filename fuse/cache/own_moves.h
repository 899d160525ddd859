// The last renames and removals by programs of this mount. The kernel has applied each of them
// already. Here they are applied to the recorded names of nodes, without a request.
//
// Thread-safe; nothing blocks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "fuse/cache/place.h"

namespace dafs::fuse {

class OwnMoves {
 public:
  // If more than kMost renames and removals happen between two checks of a name, some are no longer
  // known here. The name may then be looked up at its old location.
  static constexpr size_t kMost = 32;

  OwnMoves() = default;
  OwnMoves(const OwnMoves&) = delete;
  OwnMoves& operator=(const OwnMoves&) = delete;

  // The server has renamed. Call this before the reply to the kernel. The object that was at `to`
  // is removed or, if `exchanged`, is now at `from`.
  void Moved(const Place& from, const Place& to, bool exchanged, absl::Time now)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Removed(const Place& place, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether any name was moved or removed at `when` or later.
  bool AnySince(absl::Time when) const {
    return last_ns_.load(std::memory_order_relaxed) >= absl::ToUnixNanos(when);
  }

  // kStays: no rename or removal since `seen` concerns it.
  enum class Followed { kStays, kMoved, kGone };
  // Changes `place`, where an object was found at `seen`, to its present place.
  Followed Follow(Place& place, absl::Time seen) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Move {
    Place from;
    Place to;  // no name: removed
    bool exchanged = false;
    absl::Time at = absl::InfinitePast();
  };
  void Add(Move move) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable absl::Mutex mutex_;
  std::array<Move, kMost> moves_ ABSL_GUARDED_BY(mutex_);
  uint64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  // The time of the last move, in nanoseconds of absl::ToUnixNanos. Saves most callers the mutex.
  // Publishes nothing: a thread that must see a move has seen the reply to it.
  std::atomic<int64_t> last_ns_{INT64_MIN};
};

}  // namespace dafs::fuse
