#include "fuse/cache/node_names.h"

#include <algorithm>

namespace dafs::fuse {

void NodeNames::FoundAt(const Place& place, absl::Time now) {
  if (latest_ == place) return;
  if (now <= until_) {
    const bool first = others_until_ < now;
    others_mixed_ = lost_ || !seen_ || (!first && (others_mixed_ || others_change_ != change_));
    others_change_ = change_;
    others_until_ = std::max(others_until_, until_);
  }
  latest_ = place;
  until_ = absl::InfinitePast();
  seen_ = lost_ = false;
}

void NodeNames::Sent(const Place& place, uint64_t change, absl::Time until) {
  if (latest_ != place) return;
  until_ = std::max(until_, until);  // the kernel may use an earlier reply for longer
  change_ = change;
  seen_ = true;
  lost_ = false;
}

void NodeNames::Moved(const Place& from, const Place& to) {
  if (latest_ != from) return;
  latest_ = to;
  seen_ = false;  // the rename has changed CHANGE, and another client may have renamed since
}

const Place* NodeNames::NotSeenAt(uint64_t change, absl::Time now) const {
  return now <= until_ && !lost_ && (!seen_ || change_ != change) ? &latest_ : nullptr;
}

void NodeNames::Confirm(const Place& place, uint64_t change) { Sent(place, change, until_); }

void NodeNames::Lose(const Place& place) { lost_ = lost_ || latest_ == place; }

bool NodeNames::AnyLost(uint64_t change, absl::Time now) const {
  return (lost_ && now <= until_) ||
         (now <= others_until_ && (others_mixed_ || others_change_ != change));
}

}  // namespace dafs::fuse
