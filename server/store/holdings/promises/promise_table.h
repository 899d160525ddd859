// The memory of Promises: objects, and for each the clients that hold a promise about it. One table
// for each shard. Holders of one client are also in a list by age, so that its oldest promises can
// be ended and all of them removed.
//
// Objects and holders lie in chunks and refer to each other by index: a promise must stay below 100
// bytes, and growth must neither move an object nor stop the shard for a rehash. The hash table
// grows by one bucket at a time (linear hashing).
// Not thread-safe: the shard has a mutex. Only for Promises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "server/store/objects/handle.h"

namespace dafs::server {

// Elements with stable addresses and numbers from 1. An unused element links to the next by its
// member `next`.
template <class T>
class Slab {
 public:
  T& operator[](uint32_t number) { return chunks_[number / kChunk][number % kChunk]; }

  uint32_t Add() {
    ++used_;
    if (free_ != 0) {
      const uint32_t number = free_;
      free_ = (*this)[number].next;
      (*this)[number] = T();
      return number;
    }
    if (next_ / kChunk == chunks_.size()) chunks_.push_back(std::make_unique<T[]>(kChunk));
    return next_++;
  }
  void Remove(uint32_t number) {
    --used_;
    (*this)[number].next = free_;
    free_ = number;
  }
  size_t used() const { return used_; }

 private:
  static constexpr uint32_t kChunk = 64;

  std::vector<std::unique_ptr<T[]>> chunks_;
  uint32_t next_ = 1;
  uint32_t free_ = 0;
  size_t used_ = 0;
};

struct alignas(64) PromisedObject {
  ObjectKey key;
  bool is_contested = false;      // two requests have marked it at the same time
  bool is_open_to_write = false;  // by a client; the shard knows which
  uint32_t next = 0;              // in its bucket
  uint32_t holders = 0;           // the first
  uint32_t marks = 0;             // requests that are changing it
};
static_assert(sizeof(PromisedObject) == 64);

struct PromiseHolder {
  uint16_t client = 0;       // its number
  uint8_t what = 0;          // the promise; 0 once it is over while calls are unanswered
  uint8_t named_calls = 0;   // since the names were given last
  uint32_t calls : 31 = 0;   // unanswered
  uint32_t is_used : 1 = 0;  // given again since PickToEnd has passed it
  uint32_t object = 0;
  uint32_t next = 0;   // of the object
  uint32_t older = 0;  // of the client
  uint32_t newer = 0;
};
static_assert(sizeof(PromiseHolder) == 24);

class PromiseTable {
 public:
  static size_t Hash(const ObjectKey& key);

  // `hash` is that of `key`. The number stays the same until EraseIfUnused. 0: not there.
  uint32_t Find(size_t hash, const ObjectKey& key);
  uint32_t FindOrAdd(size_t hash, const ObjectKey& key);
  // `key` is not there.
  uint32_t Add(size_t hash, const ObjectKey& key);
  // Erases an object that has no holder, no mark, and is not open for writing.
  void EraseIfUnused(uint32_t object);
  PromisedObject& object(uint32_t number) { return objects_[number]; }

  PromiseHolder& holder(uint32_t number) { return holders_[number]; }
  // 0: the client is not among the object's holders. Takes time in proportion to their number.
  uint32_t FindHolder(const PromisedObject& object, size_t client);
  uint32_t AddHolder(uint32_t object, size_t client);
  // Removes a holder, and its object if that is unused then.
  void RemoveHolder(uint32_t holder);

  // The oldest promise of a client; 0: none. PromiseHolder::newer leads to the others.
  uint32_t Oldest(size_t client) const {
    return client < lists_.size() ? lists_[client].oldest : 0;
  }
  void MakeNewest(uint32_t holder);

 private:
  struct List {
    uint32_t oldest = 0;
    uint32_t newest = 0;
  };

  uint32_t& BucketOf(size_t hash);
  void AddBucket();
  void Append(uint32_t holder);
  void Unlink(const PromiseHolder& holder);

  Slab<PromisedObject> objects_;
  Slab<PromiseHolder> holders_;
  std::vector<uint32_t> buckets_;
  std::vector<List> lists_;  // by number of the client
};

}  // namespace dafs::server
