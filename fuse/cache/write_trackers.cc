#include "fuse/cache/write_trackers.h"

#include <algorithm>
#include <utility>

#include "fuse/cache/inode_table.h"

namespace dafs::fuse {

void KeptTrackers::Keep(const wire::FileHandle& file,
                        const std::shared_ptr<client::WriteTracker>& tracker) {
  const auto is_idle = [](const std::shared_ptr<client::WriteTracker>& writes) {
    return writes.use_count() == 1 && !writes->HasUnseenError();
  };
  if (tracker == nullptr || is_idle(tracker)) return;
  if (kept_.size() >= kMost) {
    absl::erase_if(kept_, [&](const auto& entry) { return is_idle(entry.second); });
  }
  if (kept_.size() >= kMost) kept_.erase(kept_.begin());
  kept_[file] = tracker;
}

std::shared_ptr<client::WriteTracker> KeptTrackers::Take(const wire::FileHandle& file) {
  auto kept = kept_.find(file);
  if (kept == kept_.end()) return nullptr;
  std::shared_ptr<client::WriteTracker> tracker = std::move(kept->second);
  kept_.erase(kept);
  return tracker;
}

bool KeptTrackers::HasUnseenError() const {
  return std::any_of(kept_.begin(), kept_.end(),
                     [](const auto& one) { return one.second->HasUnseenError(); });
}

std::shared_ptr<client::WriteTracker> WriteTrackers::Of(uint64_t nodeid) {
  return inodes_.WithTrackers(nodeid, [](Inode* inode, KeptTrackers& kept) {
    if (inode == nullptr) return std::make_shared<client::WriteTracker>();
    if (inode->writes == nullptr) inode->writes = kept.Take(inode->handle);
    if (inode->writes == nullptr) inode->writes = std::make_shared<client::WriteTracker>();
    return inode->writes;
  });
}

bool WriteTrackers::MayBeOpen(uint64_t nodeid) const {
  return inodes_.With(nodeid, [](const Inode* inode) {
    return inode != nullptr && inode->writes != nullptr && inode->writes.use_count() > 1;
  });
}

void WriteTrackers::NoteOwnerChange(uint64_t nodeid) {
  inodes_.With(nodeid, [](Inode* inode) {
    if (inode != nullptr && inode->writes != nullptr) inode->writes->NoteOwnerChange();
  });
}

}  // namespace dafs::fuse
