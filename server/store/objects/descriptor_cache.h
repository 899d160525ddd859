// The objects for which the server has descriptors: a bounded, least-recently-used cache keyed by
// handle. The server opens an evicted object again by its handle when a request needs it.
// Thread-safe. Find is cheap and does not block; other functions may close descriptors.
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
  // Keeps about `max_descriptors` descriptors open, less the `others` that are counted elsewhere.
  // The cache cannot close descriptors that calls and open files hold. `others` outlives it.
  DescriptorCache(size_t max_descriptors, const std::atomic<size_t>& others)
      : max_descriptors_(max_descriptors), others_(others) {}

  // The object of `key`, or null.
  ObjectRef Find(const ObjectKey& key);

  // Adds `object` and returns it. If another thread added one for the same key first, returns that
  // one.
  ObjectRef Insert(ObjectRef object);

  // CHANGE of an object that is neither cached nor open. `base` is the base of its counter.
  uint64_t ChangeOf(const ObjectKey& key, uint64_t base, uint64_t ctime_ns);

  // The objects of one part that no call and no open refers to.
  static constexpr size_t kParts = 16;
  std::vector<ObjectRef> Unused(size_t part);

  // Removes an object that no longer exists.
  void Erase(const ObjectKey& key);

  // Removes all objects of a file system that was mounted again.
  void EraseOf(const FileSystem& fs);

  // Where objects count their descriptors.
  std::atomic<size_t>& descriptors() { return descriptors_; }

 private:
  struct Shard {
    absl::Mutex mutex;
    std::list<ObjectRef> recent ABSL_GUARDED_BY(mutex);  // most recent first
    absl::flat_hash_map<ObjectKey, std::list<ObjectRef>::iterator> by_key ABSL_GUARDED_BY(mutex);
    // CHANGE counters of evicted objects that must continue from their value. Bounded by kSavedMax.
    absl::flat_hash_map<ObjectKey, ChangeCounter::Saved> saved ABSL_GUARDED_BY(mutex);
  };
  static constexpr size_t kSavedMax = 4096;  // per shard; more than a clock tick's worth of changes

  Shard& ShardOf(const ObjectKey& key) { return shards_[absl::Hash<ObjectKey>{}(key) % kParts]; }
  ObjectRef EvictOne(Shard& shard) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex);

  const size_t max_descriptors_;
  const std::atomic<size_t>& others_;
  std::atomic<size_t> descriptors_{0};  // a count; publishes no other data
  std::array<Shard, kParts> shards_;
};

}  // namespace dafs::server
