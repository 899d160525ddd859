#include "fuse/cache/own_moves.h"

#include <algorithm>
#include <utility>

namespace dafs::fuse {

void OwnMoves::Moved(const Place& from, const Place& to, bool exchanged, absl::Time now) {
  Add({from, to, exchanged, now});
}

void OwnMoves::Removed(const Place& place, absl::Time now) { Add({place, {}, false, now}); }

void OwnMoves::Add(Move move) {
  absl::MutexLock lock(&mutex_);
  const int64_t at_ns = absl::ToUnixNanos(move.at);
  moves_[count_++ % kMost] = std::move(move);
  last_ns_.store(std::max(at_ns, last_ns_.load(std::memory_order_relaxed)),
                 std::memory_order_relaxed);
}

OwnMoves::Followed OwnMoves::Follow(Place& place, absl::Time seen) const {
  if (!AnySince(seen)) return Followed::kStays;
  absl::MutexLock lock(&mutex_);
  Followed followed = Followed::kStays;
  for (uint64_t i = count_ < kMost ? 0 : count_ - kMost; i < count_; ++i) {
    const Move& move = moves_[i % kMost];
    if (move.at < seen) continue;
    if (move.from == place) {
      if (move.to.name.empty()) return Followed::kGone;
      place = move.to;
      followed = Followed::kMoved;
    } else if (move.to == place) {
      if (!move.exchanged) return Followed::kGone;
      place = move.from;
      followed = Followed::kMoved;
    }
  }
  return followed;
}

}  // namespace dafs::fuse
