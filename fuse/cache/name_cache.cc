#include "fuse/cache/name_cache.h"

#include <utility>

namespace dafs::fuse {

void NameCache::Sent(uint64_t nodeid, const Place& place, uint64_t change, absl::Time asked,
                     absl::Time until) {
  inodes_.With(nodeid, [&](Inode* inode) {
    if (inode != nullptr) inode->names.Told(place, change, asked, until);
  });
}

Places NameCache::LikelyOld(uint64_t nodeid, absl::Time now) {
  return inodes_.With(nodeid, [&](Inode* inode) {
    if (inode == nullptr) return Places();
    return inode->names.LikelyOld(own_moves_, inode->changes.touched_at(), now);
  });
}

Places NameCache::NotSeenAt(uint64_t nodeid, uint64_t change, absl::Time now) {
  return inodes_.With(nodeid, [&](Inode* inode) {
    return inode != nullptr ? inode->names.NotSeenAt(own_moves_, change, now) : Places();
  });
}

void NameCache::Confirm(uint64_t nodeid, const Place& place, uint64_t change, absl::Time now) {
  inodes_.With(nodeid, [&](Inode* inode) {
    if (inode != nullptr) inode->names.Confirm(place, change, now);
  });
}

void NameCache::Lose(uint64_t nodeid, const Place& place) {
  inodes_.With(nodeid, [&](Inode* inode) {
    if (inode != nullptr) inode->names.Lose(place);
  });
}

std::vector<Place> NameCache::Believed(uint64_t shard, absl::Time now) const {
  std::vector<Place> all;
  inodes_.ForEachOf(shard, [&](uint64_t, const Inode& inode) {
    for (Place& place : inode.names.BelievedAt(now)) all.push_back(std::move(place));
  });
  return all;
}

bool NameCache::AnyLost(uint64_t nodeid, uint64_t change, absl::Time now) const {
  return inodes_.With(nodeid, [&](const Inode* inode) {
    return inode != nullptr && inode->names.AnyLost(change, now);
  });
}

}  // namespace dafs::fuse
