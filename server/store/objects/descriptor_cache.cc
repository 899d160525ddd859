#include "server/store/objects/descriptor_cache.h"

#include <array>
#include <utility>
#include <vector>

namespace dafs::server {

ObjectRef DescriptorCache::Find(const ObjectKey& key) {
  Shard& shard = ShardOf(key);
  absl::MutexLock lock(&shard.mutex);
  auto it = shard.by_key.find(key);
  if (it == shard.by_key.end()) return nullptr;
  shard.recent.splice(shard.recent.begin(), shard.recent, it->second);
  return *it->second;
}

ObjectRef DescriptorCache::Insert(ObjectRef object) {
  const ObjectKey key = object->key();
  Shard& shard = ShardOf(key);
  // Each insertion evicts at most this many objects, so that no call pays for a long clean-up. They
  // are closed after the lock is released.
  std::array<ObjectRef, 4> evicted;
  absl::MutexLock lock(&shard.mutex);
  auto [it, inserted] = shard.by_key.try_emplace(key);
  if (!inserted) return *it->second;
  if (auto saved = shard.saved.find(key); saved != shard.saved.end()) {
    object->change().Restore(saved->second);
    shard.saved.erase(saved);
  }
  shard.recent.push_front(std::move(object));
  it->second = shard.recent.begin();
  ObjectRef result = shard.recent.front();
  const size_t held =
      descriptors_.load(std::memory_order_relaxed) + others_.load(std::memory_order_relaxed);
  size_t excess = held > max_descriptors_ ? held - max_descriptors_ : 0;
  for (ObjectRef& slot : evicted) {
    if (excess == 0 || shard.recent.size() < 2) break;
    slot = EvictOne(shard);
    --excess;
  }
  return result;
}

uint64_t DescriptorCache::ChangeOf(const ObjectKey& key, uint64_t base, uint64_t ctime_ns) {
  Shard& shard = ShardOf(key);
  absl::MutexLock lock(&shard.mutex);
  auto saved = shard.saved.find(key);
  return (saved == shard.saved.end() ? ChangeCounter::Saved() : saved->second)
      .Value(base, ctime_ns);
}

ObjectRef DescriptorCache::EvictOne(Shard& shard) {
  ObjectRef victim = std::move(shard.recent.back());
  shard.recent.pop_back();
  const ObjectKey key = victim->key();
  shard.by_key.erase(key);
  if (const ChangeCounter::Saved saved = victim->change().Save(); saved.extra > 0) {
    if (shard.saved.size() >= kSavedMax) shard.saved.clear();
    shard.saved[key] = saved;
  }
  return victim;
}

std::vector<ObjectRef> DescriptorCache::Unused(size_t part) {
  std::vector<ObjectRef> unused;
  Shard& shard = shards_[part];
  absl::MutexLock lock(&shard.mutex);
  for (const ObjectRef& object : shard.recent) {
    if (object.use_count() == 1) unused.push_back(object);
  }
  return unused;
}

void DescriptorCache::Erase(const ObjectKey& key) {
  ObjectRef erased;  // closed after the lock is released
  Shard& shard = ShardOf(key);
  absl::MutexLock lock(&shard.mutex);
  shard.saved.erase(key);
  auto it = shard.by_key.find(key);
  if (it == shard.by_key.end()) return;
  erased = std::move(*it->second);
  shard.recent.erase(it->second);
  shard.by_key.erase(it);
}

void DescriptorCache::EraseOf(const FileSystem& fs) {
  for (Shard& shard : shards_) {
    std::vector<ObjectRef> erased;  // closed after the lock is released
    absl::MutexLock lock(&shard.mutex);
    for (auto it = shard.recent.begin(); it != shard.recent.end();) {
      if (&(*it)->fs() != &fs) {
        ++it;
        continue;
      }
      shard.by_key.erase((*it)->key());
      erased.push_back(std::move(*it));
      it = shard.recent.erase(it);
    }
  }
}

}  // namespace dafs::server
