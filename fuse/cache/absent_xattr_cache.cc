#include "fuse/cache/absent_xattr_cache.h"

#include "fuse/cache/inode_table.h"

namespace dafs::fuse {

void AbsentXattrsOfNode::Note(AbsentXattr attribute, absl::Time asked, const Version& before) {
  if (asked < from_) return;
  const auto index = static_cast<size_t>(attribute);
  asked_[index] = asked;
  has_change_[index] = before.sent;
  change_[index] = before.change;
}

bool AbsentXattrsOfNode::Known(AbsentXattr attribute, absl::Time now, absl::Duration least,
                               const Version& current) const {
  const auto index = static_cast<size_t>(attribute);
  if (asked_[index] < from_ || asked_[index] == absl::InfinitePast()) return false;
  return now - asked_[index] < least ||
         (has_change_[index] && current.sent && current.change == change_[index]);
}

void AbsentXattrCache::Note(uint64_t nodeid, AbsentXattr attribute, absl::Time asked) {
  inodes_.With(nodeid, [&](Inode* inode) {
    if (inode == nullptr) return;
    const KernelView& kernel = inode->kernel;
    inode->absences.Note(attribute, asked,
                         {kernel.sent() && kernel.sent_at() <= asked, kernel.change()});
  });
}

bool AbsentXattrCache::Known(uint64_t nodeid, AbsentXattr attribute, absl::Time now) const {
  return inodes_.With(nodeid, [&](const Inode* inode) {
    if (inode == nullptr) return false;
    // The kernel asks for the capability before each write, also of files that are not promised
    // because another client writes to them.
    if (rules_.offered() && attribute != AbsentXattr::kCapability) {
      const absl::Time asked = inode->absences.asked(attribute);
      if (asked == absl::InfinitePast() ||
          !inode->promised.HeldSince(asked, rules_, inode->handle)) {
        return false;
      }
      if (inode->promised.only_clients()) return true;
    }
    const bool directory = inode->type == wire::ObjectType::kDir;
    return inode->absences.Known(attribute, now, directory ? times_.dir_min : times_.reg_min,
                                 {inode->kernel.sent(), inode->kernel.change()});
  });
}

void AbsentXattrCache::Forget(uint64_t nodeid, absl::Time now) {
  inodes_.With(nodeid, [&](Inode* inode) {
    if (inode != nullptr) inode->absences.Forget(now);
  });
}

}  // namespace dafs::fuse
