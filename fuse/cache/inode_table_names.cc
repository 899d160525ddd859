// The names of nodes, see node_names.h.
#include "fuse/cache/inode_table.h"

namespace dafs::fuse {

void InodeTable::NameTold(uint64_t nodeid, const Place& place, uint64_t change, absl::Time asked,
                          absl::Time until) {
  With(nodeid, [&](Inode* inode) {
    if (inode != nullptr) inode->names.Told(place, change, asked, until);
  });
}

Places InodeTable::NamesLikelyOld(uint64_t nodeid, absl::Time now) {
  return With(nodeid, [&](Inode* inode) {
    if (inode == nullptr) return Places();
    return inode->names.LikelyOld(own_moves_, inode->touched_at, now);
  });
}

Places InodeTable::NamesNotSeenAt(uint64_t nodeid, uint64_t change, absl::Time now) {
  return With(nodeid, [&](Inode* inode) {
    return inode != nullptr ? inode->names.NotSeenAt(own_moves_, change, now) : Places();
  });
}

void InodeTable::ConfirmName(uint64_t nodeid, const Place& place, uint64_t change, absl::Time now) {
  With(nodeid, [&](Inode* inode) {
    if (inode != nullptr) inode->names.Confirm(place, change, now);
  });
}

void InodeTable::LoseName(uint64_t nodeid, const Place& place) {
  With(nodeid, [&](Inode* inode) {
    if (inode != nullptr) inode->names.Lose(place);
  });
}

bool InodeTable::AnyNameLost(uint64_t nodeid, uint64_t change, absl::Time now) const {
  return With(nodeid, [&](const Inode* inode) {
    return inode != nullptr && inode->names.AnyLost(change, now);
  });
}

}  // namespace dafs::fuse
