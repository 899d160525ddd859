// The objects the server has descriptors for: a bounded, least-recently-used cache keyed by handle.
// An object whose descriptors are given up is opened again by its handle when it is next asked for.
// Thread-safe. Find is cheap and does not block; others may close descriptors.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <list>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/store/objects/object.h"

namespace dafs::server {

class DescriptorCache {
 public:
  // Keeps about `max_descriptors` descriptors open, less the `others` that are counted elsewhere;
  // what calls and open files hold on to besides is beyond its reach. `others` outlives it.
  DescriptorCache(size_t max_descriptors, const std::atomic<size_t>& others)
      : max_descriptors_(max_descriptors), others_(others) {}

  // The object of `key`, or none.
  ObjectRef Find(const ObjectKey& key);

  // Adds `object`, unless another thread was faster: returns the one that is in the cache.
  ObjectRef Insert(ObjectRef object);

  // CHANGE of an object that is neither here nor open, with the base of its counter.
  uint64_t ChangeOf(const ObjectKey& key, uint64_t base, uint64_t ctime_ns);

  // Those of one part that no call and no open holds on to.
  static constexpr size_t kParts = 16;
  std::vector<ObjectRef> Unused(size_t part);

  // Forgets an object that is gone.
  void Erase(const ObjectKey& key);

  // Where objects count their descriptors.
  std::atomic<size_t>& descriptors() { return descriptors_; }

 private:
  struct Shard {
    absl::Mutex mutex;
    std::list<ObjectRef> recent ABSL_GUARDED_BY(mutex);  // most recent first
    absl::flat_hash_map<ObjectKey, std::list<ObjectRef>::iterator> by_key ABSL_GUARDED_BY(mutex);
    // CHANGE counters of objects given up that must go on where they were. Bounded by kSavedMax.
    absl::flat_hash_map<ObjectKey, ChangeCounter::Saved> saved ABSL_GUARDED_BY(mutex);
  };
  static constexpr size_t kSavedMax = 4096;  // per shard; more than a clock tick's worth of changes

  Shard& ShardOf(const ObjectKey& key) { return shards_[absl::Hash<ObjectKey>{}(key) % kParts]; }
  ObjectRef EvictOne(Shard& shard) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex);

  const size_t max_descriptors_;
  const std::atomic<size_t>& others_;
  std::atomic<size_t> descriptors_{0};  // a count; publishes nothing
  std::array<Shard, kParts> shards_;
};

}  // namespace dafs::server
