// The last names that programs of this mount have taken away or given to something else. The kernel
// has followed each; what is remembered of a node's names follows them here, without asking.
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
  // Who has moved more names than that between two looks at a name has it looked up where it was.
  static constexpr size_t kMost = 32;

  OwnMoves() = default;
  OwnMoves(const OwnMoves&) = delete;
  OwnMoves& operator=(const OwnMoves&) = delete;

  // The server has done it; before the kernel is told so. What was at `to` is gone, or,
  // `exchanged`, is at `from`.
  void Moved(const Place& from, const Place& to, bool exchanged, absl::Time now)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Removed(const Place& place, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether any name was moved or removed at `when` or later.
  bool AnySince(absl::Time when) const {
    return last_ns_.load(std::memory_order_relaxed) >= absl::ToUnixNanos(when);
  }

  enum class Followed { kStays, kMoved, kGone };
  // Where what was found at `place` at `seen` is now.
  Followed Follow(Place& place, absl::Time seen) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Move {
    Place from;
    Place to;  // without a name: nowhere
    bool exchanged = false;
    absl::Time at = absl::InfinitePast();
  };
  void Add(Move move) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable absl::Mutex mutex_;
  std::array<Move, kMost> moves_ ABSL_GUARDED_BY(mutex_);
  uint64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  // When the last was, in nanoseconds of absl::ToUnixNanos. Spares most callers the mutex, and
  // publishes nothing: who is to see a move has seen its answer.
  std::atomic<int64_t> last_ns_{INT64_MIN};
};

}  // namespace dafs::fuse
