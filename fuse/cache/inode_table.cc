#include "fuse/cache/inode_table.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "fuse/cache/inode_number.h"

namespace dafs::fuse {
namespace {

// The kernel repeats the lookup at once, but first looks up each component of the path.
constexpr absl::Duration kAskedAgain = absl::Seconds(1);

// A table's capacity may be twice its nodes. It is worth shrinking above twice that.
constexpr size_t kSpacious = 4;

}  // namespace

uint64_t InodeTable::ShardOfHandle(const wire::FileHandle& handle) {
  return absl::HashOf(handle) % kShards;
}

void InodeTable::SetRoot(const wire::FileHandle& handle, const wire::FileAttributes& attributes) {
  auto inode = std::make_unique<Inode>();
  inode->handle = handle;
  inode->type = wire::ObjectType::kDir;
  inode->file_id = attributes.file_id;
  inode->lookups = 1;
  root_fs_ = handle.fshandle;
  Shard& shard = ShardOf(kRootNode);
  absl::MutexLock lock(&shard.mutex);
  // Not in by_handle: the root is never found by a name.
  shard.by_node[kRootNode] = std::move(inode);
}

void InodeTable::EndMove(Inode& inode) {
  if (inode.moved == nullptr) return;
  inode.moved.reset();
  moved_.fetch_sub(1, std::memory_order_relaxed);
}

bool InodeTable::FoundAt(Inode& inode, const Place& place, const Asker& asker) {
  const Place& latest = inode.names.latest();
  const bool same_parent = latest.parent == place.parent;
  const bool same = same_parent && latest.name == place.name;
  if (inode.moved != nullptr && same && inode.moved->thread == asker.thread && asker.thread != 0 &&
      asker.at - inode.moved->at < kAskedAgain) {
    return false;
  }
  if (!same_parent && inode.moved == nullptr && inode.type == wire::ObjectType::kDir) {
    inode.moved = std::make_unique<Asker>();
    moved_.fetch_add(1, std::memory_order_relaxed);
  }
  if (inode.moved != nullptr) *inode.moved = asker;
  if (!same) inode.names.FoundAt(place, asker.at);
  if (inode.type == wire::ObjectType::kDir) inode.names.DropOthers();
  return true;
}

uint64_t InodeTable::Remember(const wire::FileHandle& handle,
                              const wire::FileAttributes& attributes, const Place& place,
                              const Asker& asker) {
  if (handle.fshandle != root_fs_ && !several_fs_.load(std::memory_order_relaxed)) {
    several_fs_.store(true, std::memory_order_relaxed);
  }
  uint64_t index = ShardOfHandle(handle);
  Shard& shard = shards_[index];
  absl::MutexLock lock(&shard.mutex);
  uint64_t& nodeid = shard.by_handle[handle];
  if (nodeid == 0 || !FoundAt(*shard.by_node[nodeid], place, asker)) {
    nodeid = next_.fetch_add(1, std::memory_order_relaxed) * kShards + index;
    auto made = std::make_unique<Inode>();
    made->handle = handle;
    made->names.FoundAt(place, asker.at);
    shard.by_node[nodeid] = std::move(made);
  }
  Inode& inode = *shard.by_node[nodeid];
  ++inode.lookups;
  inode.type = attributes.object_type;
  inode.file_id = attributes.file_id;
  return nodeid;
}

void InodeTable::Accepted(uint64_t nodeid, uint32_t thread) {
  if (moved_.load(std::memory_order_relaxed) == 0) return;
  With(nodeid, [&](Inode* inode) {
    if (inode == nullptr || inode->moved == nullptr || inode->moved->thread != thread) return;
    EndMove(*inode);
  });
}

void InodeTable::KeepWrites(Shard& shard, const Inode& inode) {
  const auto is_idle = [](const std::shared_ptr<client::WriteTracker>& writes) {
    return writes.use_count() == 1 && !writes->HasUnseenError();
  };
  if (inode.writes == nullptr || is_idle(inode.writes)) return;
  auto& kept = shard.writes;
  if (kept.size() >= kMostWrites) {
    absl::erase_if(kept, [&](const auto& entry) { return is_idle(entry.second); });
  }
  if (kept.size() >= kMostWrites) kept.erase(kept.begin());
  kept[inode.handle] = inode.writes;
}

std::optional<InodeTable::Gone> InodeTable::Forget(uint64_t nodeid, uint64_t count) {
  if (nodeid == kRootNode) return std::nullopt;
  Shard& shard = ShardOf(nodeid);
  absl::MutexLock lock(&shard.mutex);
  auto it = shard.by_node.find(nodeid);
  if (it == shard.by_node.end()) return std::nullopt;
  Inode& inode = *it->second;
  inode.lookups -= std::min(count, inode.lookups);
  if (inode.lookups > 0) return std::nullopt;
  EndMove(inode);
  KeepWrites(shard, inode);
  std::optional<Gone> gone;
  if (inode.writes != nullptr && inode.writes->uncommitted()) gone = {inode.handle, inode.writes};
  auto latest = shard.by_handle.find(inode.handle);
  if (latest != shard.by_handle.end() && latest->second == nodeid) shard.by_handle.erase(latest);
  shard.by_node.erase(it);
  forgotten_.fetch_add(1, std::memory_order_relaxed);
  return gone;
}

std::optional<InodeView> InodeTable::Find(uint64_t nodeid) const {
  return With(nodeid, [&](const Inode* inode) -> std::optional<InodeView> {
    if (inode == nullptr) return std::nullopt;
    return InodeView{nodeid, inode->handle, inode->type, inode->file_id};
  });
}

uint64_t InodeTable::NumberIn(const wire::FsHandle& fs, uint64_t file_id) const {
  return InodeNumber(fs, root_fs_, file_id);
}

uint64_t InodeTable::NumberOf(uint64_t nodeid, uint64_t file_id) const {
  if (!several_fs_.load(std::memory_order_relaxed)) return file_id;
  return With(nodeid, [&](const Inode* inode) {
    return inode == nullptr ? file_id : NumberIn(inode->handle.fshandle, file_id);
  });
}

uint64_t InodeTable::NodeOf(const wire::FileHandle& handle) const {
  Shard& shard = shards_[ShardOfHandle(handle)];
  absl::MutexLock lock(&shard.mutex);
  auto it = shard.by_handle.find(handle);
  return it == shard.by_handle.end() ? 0 : it->second;
}

Place InodeTable::PlaceOf(uint64_t nodeid) const {
  return With(nodeid, [](const Inode* inode) { return inode ? inode->names.latest() : Place(); });
}

absl::Duration InodeTable::Tell(Inode& inode, const wire::FileAttributes& attributes,
                                absl::Time at) {
  const bool directory = attributes.object_type == wire::ObjectType::kDir;
  const absl::Duration least = directory ? times_.dir_min : times_.reg_min;
  const absl::Duration greatest = directory ? times_.dir_max : times_.reg_max;
  if (!inode.told || inode.told_change != attributes.change) {
    inode.valid_for = least;
  } else if (at - inode.told_at >= inode.valid_for) {
    inode.valid_for = std::min(inode.valid_for * 2, greatest);
  }
  inode.told = true;
  inode.told_set_id = attributes.object_type == wire::ObjectType::kReg &&
                      (attributes.mode & (S_ISUID | S_ISGID)) != 0;
  inode.told_change = attributes.change;
  inode.told_at = at;
  inode.fresh.reset();
  inode.changed_untold = false;
  const bool keeps = attributes.object_type != wire::ObjectType::kReg;
  if (keeps && inode.last_told != nullptr) {
    *inode.last_told = attributes;
  } else if (keeps) {
    inode.last_told = std::make_unique<wire::FileAttributes>(attributes);
  }
  return inode.valid_for;
}

// The kernel may discard this reply if an earlier reply had another CHANGE, and the kernel may have
// accepted that one after this request arrived.
void InodeTable::Answers(Inode& inode, uint64_t change, const KernelQuestion& question,
                         absl::Time now) {
  const bool by_another = question.thread == 0 || question.thread != inode.answered_thread;
  if (inode.answered_at != absl::InfinitePast() && inode.told_change != change && by_another) {
    inode.unsure_until = std::make_unique<absl::Time>(inode.answered_at + kTaken);
  }
  inode.unsure = inode.unsure_until != nullptr && question.arrived < *inode.unsure_until;
  if (!inode.unsure) inode.unsure_until.reset();
  inode.answered_thread = question.thread;
  inode.answered_at = now;
}

void InodeTable::KernelForgot(uint64_t nodeid) {
  With(nodeid, [](Inode* inode) {
    if (inode == nullptr) return;
    inode->answered_at = absl::InfinitePast();
    inode->unsure_until.reset();
    inode->unsure = false;
    inode->told_set_id = false;
  });
}

absl::Duration InodeTable::Told(uint64_t nodeid, const wire::FileAttributes& attributes,
                                absl::Time now, const KernelQuestion& question) {
  return With(nodeid, [&](Inode* inode) {
    if (inode != nullptr) {
      Answers(*inode, attributes.change, question, now);
      return Tell(*inode, attributes, now);
    }
    const bool directory = attributes.object_type == wire::ObjectType::kDir;
    return directory ? times_.dir_min : times_.reg_min;
  });
}

std::optional<wire::FileAttributes> InodeTable::LastToldOfDirectory(uint64_t nodeid) const {
  return With(nodeid, [&](const Inode* inode) -> std::optional<wire::FileAttributes> {
    if (inode == nullptr || inode->last_told == nullptr) return std::nullopt;
    if (inode->last_told->object_type != wire::ObjectType::kDir) return std::nullopt;
    return *inode->last_told;
  });
}

void InodeTable::NotTold(uint64_t nodeid) {
  With(nodeid, [](Inode* inode) {
    if (inode != nullptr) inode->told = false;
  });
}

std::optional<InodeTable::Again> InodeTable::LookUpAgain(uint64_t nodeid, absl::Time now) {
  return With(nodeid, [&](Inode* inode) -> std::optional<Again> {
    if (inode == nullptr || !inode->told || inode->last_told == nullptr) return std::nullopt;
    if (inode->type == wire::ObjectType::kDir || inode->touched_at >= inode->told_at) {
      return std::nullopt;
    }
    const absl::Duration left = inode->told_at + inode->valid_for - now;
    if (left <= absl::ZeroDuration()) return std::nullopt;
    ++inode->lookups;
    return Again{*inode->last_told, left};
  });
}

bool InodeTable::KernelIsCurrent(uint64_t nodeid, uint64_t change) const {
  return With(nodeid, [&](const Inode* inode) {
    return inode != nullptr && inode->told && !inode->unsure && inode->told_change == change;
  });
}

bool InodeTable::PagesAreCurrent(uint64_t nodeid, uint64_t change) const {
  return With(nodeid, [&](const Inode* inode) {
    return inode != nullptr && inode->pages_change == change;
  });
}

void InodeTable::PagesAre(uint64_t nodeid, uint64_t change) {
  With(nodeid, [&](Inode* inode) {
    if (inode != nullptr) inode->pages_change = change;
  });
}

void InodeTable::Touched(Inode& inode, absl::Time now) {
  ++inode.touches;
  inode.touched_at = now;
  inode.fresh.reset();
}

bool InodeTable::Touch(uint64_t nodeid, absl::Time now) {
  return With(nodeid, [&](Inode* inode) {
    if (inode == nullptr) return false;
    Touched(*inode, now);
    return ShowsSetId(*inode);
  });
}

InodeTable::Change InodeTable::BeginChange(uint64_t nodeid, absl::Time now) {
  return With(nodeid, [&](Inode* inode) -> Change {
    if (inode == nullptr) return {};
    Touched(*inode, now);
    const bool alone = inode->changes_begun == inode->changes_ended;
    return {++inode->changes_begun,
            alone,
            now,
            {inode->touches, RemovalsOf(*inode)},
            ShowsSetId(*inode)};
  });
}

bool InodeTable::EndChange(uint64_t nodeid, const Change& change, wire::FileAttributes after,
                           absl::Time now, uint64_t removals) {
  return With(nodeid, [&](Inode* inode) {
    // The node was unknown when the change began (number 0), or is another one now.
    if (inode == nullptr || change.number == 0 || change.number > inode->changes_begun) {
      return false;
    }
    ++inode->changes_ended;
    const bool told_since = inode->told && inode->told_at > change.at;
    const bool undisturbed = change.alone && inode->touches == change.begun.touches && !told_since;
    Touched(*inode, now);
    inode->changed_untold = true;
    if (undisturbed && after.valid != 0) {
      Keep(*inode, std::move(after), change.begun.removals + removals, now);
      inode->fresh_of_change = true;
    }
    return ShowsSetId(*inode);
  });
}

void InodeTable::Keep(Inode& inode, wire::FileAttributes attributes, uint64_t removals,
                      absl::Time now) {
  inode.fresh = std::make_unique<wire::FileAttributes>(std::move(attributes));
  inode.fresh_at = now;
  inode.fresh_removals = removals;
  inode.fresh_of_change = false;
  inode.fresh_for = 0;
}

InodeTable::Moment InodeTable::MomentOf(uint64_t nodeid) const {
  return With(nodeid, [this](const Inode* inode) {
    return inode != nullptr ? Moment{inode->touches, RemovalsOf(*inode)} : Moment();
  });
}

void InodeTable::KeepFresh(uint64_t nodeid, const Moment& asked,
                           const wire::FileAttributes& attributes, absl::Time now,
                           uint32_t thread) {
  With(nodeid, [&](Inode* inode) {
    if (inode == nullptr || inode->touches != asked.touches) return;
    if (inode->told && inode->told_at >= now) return;
    if (inode->fresh != nullptr && inode->fresh_at > now) return;  // they are from a later request
    Keep(*inode, attributes, asked.removals, now);
    inode->fresh_for = thread;
  });
}

void InodeTable::DropFresh(uint64_t nodeid) {
  With(nodeid, [](Inode* inode) {
    if (inode != nullptr) inode->fresh.reset();
  });
}

std::optional<InodeTable::Fresh> InodeTable::TakeFresh(uint64_t nodeid, absl::Time now,
                                                       const KernelQuestion& question) {
  return With(nodeid, [&](Inode* inode) -> std::optional<Fresh> {
    if (inode == nullptr || inode->fresh == nullptr) return std::nullopt;
    if (inode->fresh_for != 0 && inode->fresh_for != question.thread) return std::nullopt;
    std::unique_ptr<wire::FileAttributes> fresh = std::move(inode->fresh);
    const bool directory = inode->type == wire::ObjectType::kDir;
    const bool for_a_moment = !directory || inode->fresh_for != 0;
    const absl::Duration kept = directory ? times_.dir_min : times_.reg_min;
    const absl::Duration least = for_a_moment ? std::min(kept, kFreshFileFor) : kept;
    const absl::Duration age = now - inode->fresh_at;
    if (age >= least || inode->fresh_removals != RemovalsOf(*inode)) return std::nullopt;
    Answers(*inode, fresh->change, question, now);
    const absl::Duration left = Tell(*inode, *fresh, inode->fresh_at) - age;
    return Fresh{std::move(*fresh), left, inode->fresh_of_change};
  });
}

bool InodeTable::ChangedUntold(uint64_t nodeid) const {
  return With(nodeid, [](const Inode* inode) { return inode != nullptr && inode->changed_untold; });
}

bool InodeTable::TouchedSince(uint64_t nodeid, absl::Time when) const {
  return With(nodeid,
              [&](const Inode* inode) { return inode != nullptr && inode->touched_at >= when; });
}

bool InodeTable::NewsSince(uint64_t nodeid, absl::Time when) const {
  return With(nodeid, [&](const Inode* inode) {
    return inode != nullptr && (inode->touched_at >= when || inode->told_at >= when);
  });
}

void InodeTable::ListedBehind(uint64_t nodeid, uint64_t next) {
  With(nodeid, [&](Inode* inode) {
    if (inode != nullptr) inode->next_listed = next;
  });
}

uint64_t InodeTable::NextListed(uint64_t nodeid) const {
  return With(nodeid, [](const Inode* inode) { return inode != nullptr ? inode->next_listed : 0; });
}

void InodeTable::NoteAbsent(uint64_t nodeid, Absent attribute, absl::Time asked) {
  With(nodeid, [&](Inode* inode) {
    if (inode == nullptr || asked < inode->absent_from) return;
    AbsentAttribute& absent = inode->absent[static_cast<size_t>(attribute)];
    absent.asked = asked;
    absent.has_change = inode->told && inode->told_at <= asked;
    absent.change = inode->told_change;
  });
}

bool InodeTable::KnownAbsent(uint64_t nodeid, Absent attribute, absl::Time now) const {
  return With(nodeid, [&](const Inode* inode) {
    if (inode == nullptr) return false;
    const AbsentAttribute& absent = inode->absent[static_cast<size_t>(attribute)];
    if (absent.asked < inode->absent_from || absent.asked == absl::InfinitePast()) return false;
    const bool directory = inode->type == wire::ObjectType::kDir;
    return now - absent.asked < (directory ? times_.dir_min : times_.reg_min) ||
           (absent.has_change && inode->told && inode->told_change == absent.change);
  });
}

void InodeTable::ForgetAbsent(uint64_t nodeid, absl::Time now) {
  With(nodeid, [&](Inode* inode) {
    if (inode != nullptr) inode->absent_from = now;
  });
}

std::shared_ptr<client::WriteTracker> InodeTable::WritesOf(uint64_t nodeid) {
  Shard& shard = ShardOf(nodeid);
  absl::MutexLock lock(&shard.mutex);
  auto it = shard.by_node.find(nodeid);
  if (it == shard.by_node.end()) return std::make_shared<client::WriteTracker>();
  Inode& inode = *it->second;
  if (inode.writes != nullptr) return inode.writes;
  if (auto kept = shard.writes.find(inode.handle); kept != shard.writes.end()) {
    inode.writes = std::move(kept->second);
    shard.writes.erase(kept);
  } else {
    inode.writes = std::make_shared<client::WriteTracker>();
  }
  return inode.writes;
}

void InodeTable::NoteOwnerChange(uint64_t nodeid) {
  With(nodeid, [](Inode* inode) {
    if (inode != nullptr && inode->writes != nullptr) inode->writes->NoteOwnerChange();
  });
}

void InodeTable::ShrinkToFit() {
  for (Shard& shard : shards_) {
    absl::MutexLock lock(&shard.mutex);
    // Erasing does not reduce the capacity of a table.
    if (shard.by_node.capacity() > kSpacious * (shard.by_node.size() + 1)) shard.by_node.rehash(0);
    if (shard.by_handle.capacity() > kSpacious * (shard.by_handle.size() + 1)) {
      shard.by_handle.rehash(0);
    }
  }
}

size_t InodeTable::size() const {
  size_t count = 0;
  for (Shard& shard : shards_) {
    absl::MutexLock lock(&shard.mutex);
    count += shard.by_node.size();
  }
  return count;
}

}  // namespace dafs::fuse
