#include "fuse/cache/node_names.h"

#include <algorithm>
#include <utility>

namespace dafs::fuse {

NodeNames::Name* NodeNames::Find(const Place& place) {
  if (latest_.place == place) return &latest_;
  if (others_ == nullptr) return nullptr;
  for (Name& name : others_->names) {
    if (name.place == place) return &name;
  }
  return nullptr;
}

// Keeps a name that is no longer the latest.
void NodeNames::Put(Name name, absl::Time now) {
  if (!name.Believed(now) || name.place.name.empty()) return;
  if (others_ == nullptr) others_ = std::make_unique<Others>();
  std::vector<Name>& names = others_->names;
  if (names.size() + 1 >= kMost)
    std::erase_if(names, [&](const Name& n) { return !n.Believed(now); });
  if (names.size() + 1 < kMost) {
    names.push_back(std::move(name));
    return;
  }
  const absl::Time until = name.seen + absl::Milliseconds(name.believed_ms);
  const bool first = others_->crowd_until < now;
  others_->crowd_mixed = name.lost || name.moved ||
                         (!first && (others_->crowd_mixed || others_->crowd_change != name.change));
  others_->crowd_change = name.change;
  others_->crowd_until = std::max(others_->crowd_until, until);
}

void NodeNames::FoundAt(const Place& place, absl::Time now) {
  if (latest_.place == place) return;
  Name found;
  found.place = place;
  if (others_ != nullptr) {
    auto known = std::find_if(others_->names.begin(), others_->names.end(),
                              [&](const Name& name) { return name.place == place; });
    if (known != others_->names.end()) {
      found = std::move(*known);
      others_->names.erase(known);
    }
  }
  Put(std::exchange(latest_, std::move(found)), now);
}

void NodeNames::Told(const Place& place, uint64_t change, absl::Time seen, absl::Time until) {
  Name* name = Find(place);
  if (name == nullptr)
    return;  // another thread found the node elsewhere since, and the name did not fit
  // The kernel may use an earlier reply for longer.
  if (name->believed_ms != 0) {
    until = std::max(until, name->seen + absl::Milliseconds(name->believed_ms));
  }
  name->seen = seen;
  name->change = change;
  name->believed_ms = static_cast<uint32_t>(
      std::clamp<int64_t>(absl::ToInt64Milliseconds(until - seen) + 1, 0, UINT32_MAX));
  name->moved = false;
  name->lost = false;
}

void NodeNames::Follow(const OwnMoves& moves, absl::Time now) {
  auto follow = [&](Name& name) {
    if (!name.Believed(now)) return true;
    switch (moves.Follow(name.place, name.seen)) {
      case OwnMoves::Followed::kStays:
        return true;
      case OwnMoves::Followed::kGone:
        return false;
      case OwnMoves::Followed::kMoved:
        break;
    }
    // A moved name counts as seen at its new place. If another client has changed it since, CHANGE
    // differs.
    name.believed_ms = static_cast<uint32_t>(std::max<int64_t>(
        absl::ToInt64Milliseconds(name.seen + absl::Milliseconds(name.believed_ms) - now) + 1, 1));
    name.seen = now + absl::Nanoseconds(1);  // after the moves that it has followed
    name.moved = true;
    return true;
  };
  if (!follow(latest_)) latest_.believed_ms = 0;
  if (others_ != nullptr) std::erase_if(others_->names, [&](Name& name) { return !follow(name); });
}

template <class F>
Places NodeNames::Which(const OwnMoves& moves, absl::Time now, F&& wanted) {
  Follow(moves, now);
  Places places;
  auto look = [&](const Name& name) {
    if (name.Believed(now) && !name.lost && wanted(name)) places.push_back(name.place);
  };
  look(latest_);
  if (others_ != nullptr) std::for_each(others_->names.begin(), others_->names.end(), look);
  return places;
}

Places NodeNames::LikelyOld(const OwnMoves& moves, absl::Time touched, absl::Time now) {
  return Which(moves, now, [&](const Name& name) { return name.moved || touched >= name.seen; });
}

Places NodeNames::NotSeenAt(const OwnMoves& moves, uint64_t change, absl::Time now) {
  return Which(moves, now, [&](const Name& name) { return name.change != change; });
}

Places NodeNames::BelievedAt(absl::Time now) const {
  Places places;
  auto look = [&](const Name& name) {
    if (name.Believed(now)) places.push_back(name.place);
  };
  look(latest_);
  if (others_ != nullptr) std::for_each(others_->names.begin(), others_->names.end(), look);
  return places;
}

void NodeNames::Confirm(const Place& place, uint64_t change, absl::Time now) {
  Name* name = Find(place);
  if (name == nullptr || name->believed_ms == 0) return;
  const absl::Time until = name->seen + absl::Milliseconds(name->believed_ms);
  name->believed_ms = 0;  // keeps `until` as given
  Told(place, change, now, until);
}

void NodeNames::Lose(const Place& place) {
  if (Name* name = Find(place)) name->lost = true;
}

bool NodeNames::AnyLost(uint64_t change, absl::Time now) const {
  auto lost = [&](const Name& name) { return name.lost && name.Believed(now); };
  if (lost(latest_)) return true;
  if (others_ == nullptr) return false;
  if (std::any_of(others_->names.begin(), others_->names.end(), lost)) return true;
  return now <= others_->crowd_until && (others_->crowd_mixed || others_->crowd_change != change);
}

}  // namespace dafs::fuse
