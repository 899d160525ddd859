#include "fuse/cache/inode_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fuse/cache/inode_number.h"

namespace dafs::fuse {
namespace {

// The kernel repeats the lookup at once, but first looks up each component of the path.
constexpr absl::Duration kAskedAgain = absl::Seconds(1);

// A mount may have millions of nodes, so a part of Inode that grows needs a reason.
static_assert(sizeof(Inode) <= 528);

// A table's capacity may be twice its nodes. It is worth shrinking above twice that.
constexpr size_t kSpaciousTable = 4;

}  // namespace

uint64_t InodeTable::ShardOfHandle(const wire::FileHandle& handle) {
  uint64_t hash = 0;
  const auto mix = [&hash](const auto& bytes) {
    for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, sizeof(word));
      hash = (hash ^ word) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 32;
    }
  };
  mix(handle.fshandle.bytes);
  mix(handle.fileid.bytes);
  return hash % kShards;
}

void InodeTable::SetRoot(const wire::FileHandle& handle, const client::Attributes& attributes) {
  auto inode = std::make_unique<Inode>();
  inode->handle = handle;
  inode->type = wire::ObjectType::kDir;
  inode->file_id = attributes.file_id;
  inode->lookups = 1;
  inode->latest.Learn(attributes);
  root_ = handle;
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

bool InodeTable::FoundAt(Inode& inode, const DentryName& dentry, const Asker& asker) {
  const DentryName& latest = inode.names.latest();
  const bool same_parent = latest.parent == dentry.parent;
  const bool same = same_parent && latest.name == dentry.name;
  if (inode.moved != nullptr && same && inode.moved->thread == asker.thread && asker.thread != 0 &&
      asker.at - inode.moved->at < kAskedAgain) {
    return false;
  }
  // After a kill it is not known where the directory was found.
  const bool was_found = latest.parent != 0;
  if (!same_parent && was_found && inode.moved == nullptr && inode.type == wire::ObjectType::kDir) {
    inode.moved = std::make_unique<Asker>();
    moved_.fetch_add(1, std::memory_order_relaxed);
  }
  if (inode.moved != nullptr) *inode.moved = asker;
  if (!same) inode.names.FoundAt(dentry, asker.at);
  if (inode.type == wire::ObjectType::kDir) inode.names.DropOthers();
  return true;
}

uint64_t InodeTable::Remember(const wire::FileHandle& handle,
                              const wire::FileAttributes& attributes, const DentryName& dentry,
                              const Asker& asker) {
  if (handle.fshandle != root_.fshandle && !several_fs_.load(std::memory_order_relaxed)) {
    several_fs_.store(true, std::memory_order_relaxed);
  }
  uint64_t index = ShardOfHandle(handle);
  Shard& shard = shards_[index];
  absl::MutexLock lock(&shard.mutex);
  uint64_t& nodeid = shard.by_handle[handle];
  if (nodeid == 0 || !FoundAt(*shard.by_node[nodeid], dentry, asker)) {
    if (nodeid != 0) shard.older[handle].push_back(nodeid);
    nodeid = next_.fetch_add(1, std::memory_order_relaxed) * kShards + index;
    auto made = std::make_unique<Inode>();
    made->handle = handle;
    made->names.FoundAt(dentry, asker.at);
    shard.by_node[nodeid] = std::move(made);
  }
  Inode& inode = *shard.by_node[nodeid];
  ++inode.lookups;
  const bool is_other = inode.type != attributes.object_type || inode.file_id != attributes.file_id;
  inode.type = attributes.object_type;
  inode.file_id = attributes.file_id;
  // A new node has no type.
  if (is_other) {
    live_.Put(nodeid, inode);
  } else {
    live_.Count(inode);
  }
  return nodeid;
}

void InodeTable::Moved(uint64_t nodeid, const DentryName& from, const DentryName& to,
                       absl::Time now) {
  With(nodeid, [&](Inode* inode) {
    if (inode == nullptr) return;
    inode->names.Moved(from, to);
    if (inode->type != wire::ObjectType::kDir) return;
    EndMove(*inode);
    inode->names.FoundAt(to, now);
    inode->names.DropOthers();
  });
}

void InodeTable::Accepted(uint64_t nodeid, uint32_t thread) {
  if (moved_.load(std::memory_order_relaxed) == 0) return;
  With(nodeid, [&](Inode* inode) {
    if (inode == nullptr || inode->moved == nullptr || inode->moved->thread != thread) return;
    EndMove(*inode);
  });
}

std::optional<InodeTable::Forgotten> InodeTable::Forget(uint64_t nodeid, uint64_t count) {
  if (nodeid == kRootNode) return std::nullopt;
  Shard& shard = ShardOf(nodeid);
  absl::MutexLock lock(&shard.mutex);
  auto it = shard.by_node.find(nodeid);
  if (it == shard.by_node.end()) return std::nullopt;
  Inode& inode = *it->second;
  inode.lookups -= std::min(count, inode.lookups);
  if (inode.lookups > 0) {
    live_.Count(inode);
    return std::nullopt;
  }
  live_.Drop(inode);
  EndMove(inode);
  shard.trackers.Keep(inode.handle, inode.writes);
  Forgotten gone;
  gone.dentry = inode.names.latest();
  if (inode.writes != nullptr) gone.opened = inode.handle;
  if (inode.type == wire::ObjectType::kDir) gone.directory = inode.handle;
  auto latest = shard.by_handle.find(inode.handle);
  if (latest != shard.by_handle.end() && latest->second == nodeid) {
    shard.by_handle.erase(latest);
  } else if (auto older = shard.older.find(inode.handle); older != shard.older.end()) {
    older->second.erase(std::remove(older->second.begin(), older->second.end(), nodeid),
                        older->second.end());
    if (older->second.empty()) shard.older.erase(older);
  }
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
  return InodeNumber(fs, root_.fshandle, file_id);
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

InodeTable::NodeIds InodeTable::NodesOf(const wire::FileHandle& handle) const {
  NodeIds nodes;
  if (handle == root_) nodes.push_back(kRootNode);
  Shard& shard = shards_[ShardOfHandle(handle)];
  absl::MutexLock lock(&shard.mutex);
  auto latest = shard.by_handle.find(handle);
  if (latest != shard.by_handle.end()) nodes.push_back(latest->second);
  auto older = shard.older.find(handle);
  if (older != shard.older.end()) {
    nodes.insert(nodes.end(), older->second.begin(), older->second.end());
  }
  return nodes;
}

DentryName InodeTable::LatestDentryOf(uint64_t nodeid) const {
  return With(nodeid,
              [](const Inode* inode) { return inode ? inode->names.latest() : DentryName(); });
}

void InodeTable::ShrinkToFit() {
  for (Shard& shard : shards_) {
    absl::MutexLock lock(&shard.mutex);
    // Erasing does not reduce the capacity of a table.
    if (shard.by_node.capacity() > kSpaciousTable * (shard.by_node.size() + 1))
      shard.by_node.rehash(0);
    if (shard.by_handle.capacity() > kSpaciousTable * (shard.by_handle.size() + 1)) {
      shard.by_handle.rehash(0);
    }
  }
  live_.ReleaseUnused();
}

size_t InodeTable::size() const {
  size_t count = 0;
  for (Shard& shard : shards_) {
    absl::MutexLock lock(&shard.mutex);
    count += shard.by_node.size();
  }
  return count;
}

bool InodeTable::HasUnseenError() const {
  for (Shard& shard : shards_) {
    absl::MutexLock lock(&shard.mutex);
    if (shard.trackers.HasUnseenError()) return true;
    for (const auto& [nodeid, inode] : shard.by_node) {
      if (inode->writes != nullptr && inode->writes->HasUnseenError()) return true;
    }
  }
  return false;
}

InodeTable::Saved::Node InodeTable::SavedOf(const Shard& shard, uint64_t nodeid,
                                            const Inode& inode) {
  Saved::Node node;
  node.nodeid = nodeid;
  node.handle = inode.handle;
  node.type = inode.type;
  node.file_id = inode.file_id;
  node.lookups = inode.lookups;
  node.dentry = inode.names.latest();
  node.names = inode.names.Save();
  const auto newest = shard.by_handle.find(inode.handle);
  node.newest = newest != shard.by_handle.end() && newest->second == nodeid;
  if (inode.kernel.sent()) node.change = inode.kernel.change();
  if (inode.pages.has_change) node.pages = inode.pages.change;
  return node;
}

InodeTable::Saved InodeTable::Save() const {
  Saved saved;
  saved.generation = generation_;
  saved.next = next_.load(std::memory_order_relaxed);
  for (Shard& shard : shards_) {
    absl::MutexLock lock(&shard.mutex);
    for (const auto& [nodeid, inode] : shard.by_node) {
      saved.nodes.push_back(SavedOf(shard, nodeid, *inode));
    }
  }
  return saved;
}

InodeTable::Saved InodeTable::SaveRoot() const {
  Saved saved;
  saved.generation = generation_;
  saved.next = next_.load(std::memory_order_relaxed);
  Shard& shard = ShardOf(kRootNode);
  absl::MutexLock lock(&shard.mutex);
  const auto root = shard.by_node.find(kRootNode);
  if (root != shard.by_node.end()) saved.nodes.push_back(SavedOf(shard, kRootNode, *root->second));
  return saved;
}

bool InodeTable::Restore(const Saved& saved) {
  generation_ = saved.generation;
  next_.store(saved.next, std::memory_order_relaxed);
  const auto root = std::find_if(saved.nodes.begin(), saved.nodes.end(),
                                 [](const Saved::Node& node) { return node.nodeid == kRootNode; });
  if (root == saved.nodes.end()) return false;
  root_ = root->handle;
  for (const Saved::Node& node : saved.nodes) {
    const bool is_root = node.nodeid == kRootNode;
    // A node that is given next must not be one of these.
    if (!is_root && (node.nodeid / kShards == 0 || node.nodeid / kShards >= saved.next ||
                     node.nodeid % kShards != ShardOfHandle(node.handle))) {
      return false;
    }
    if (node.handle.fshandle != root_.fshandle) several_fs_.store(true, std::memory_order_relaxed);
    auto inode = std::make_unique<Inode>();
    inode->handle = node.handle;
    inode->type = node.type;
    inode->file_id = node.file_id;
    inode->lookups = node.lookups;
    inode->names.Restore(node.dentry, node.names);
    if (node.change.has_value()) inode->kernel.Restore(*node.change);
    if (node.pages.has_value()) {
      inode->pages.change = *node.pages;
      inode->pages.has_change = true;
    }
    if (!is_root) live_.Put(node.nodeid, *inode);
    Shard& shard = ShardOf(node.nodeid);
    absl::MutexLock lock(&shard.mutex);
    if (!shard.by_node.emplace(node.nodeid, std::move(inode)).second) return false;
    if (is_root) continue;
    if (!node.newest) {
      shard.older[node.handle].push_back(node.nodeid);
    } else if (!shard.by_handle.emplace(node.handle, node.nodeid).second) {
      return false;
    }
  }
  return true;
}

}  // namespace dafs::fuse
