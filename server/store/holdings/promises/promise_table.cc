#include "server/store/holdings/promises/promise_table.h"

#include <bit>

#include "absl/hash/hash.h"

namespace dafs::server {

size_t PromiseTable::Hash(const ObjectKey& key) { return absl::HashOf(key); }

uint32_t& PromiseTable::BucketOf(size_t hash) {
  const size_t mask = std::bit_ceil(buckets_.size()) - 1;
  const size_t index = hash & mask;
  return buckets_[index < buckets_.size() ? index : index & (mask >> 1)];
}

// Moves to the new bucket what belongs there; all of that is in the one whose number has the same
// lower bits.
void PromiseTable::AddBucket() {
  const size_t added = buckets_.size();
  buckets_.push_back(0);
  if (added == 0) return;
  uint32_t* link = &buckets_[added & ~std::bit_floor(added)];
  const size_t mask = std::bit_ceil(added + 1) - 1;
  while (*link != 0) {
    PromisedObject& object = objects_[*link];
    if ((Hash(object.key) & mask) != added) {
      link = &object.next;
      continue;
    }
    const uint32_t moved = *link;
    *link = object.next;
    object.next = buckets_[added];
    buckets_[added] = moved;
  }
}

uint32_t PromiseTable::Find(size_t hash, const ObjectKey& key) {
  if (buckets_.empty()) return 0;
  uint32_t number = BucketOf(hash);
  while (number != 0 && !(objects_[number].key == key)) number = objects_[number].next;
  return number;
}

uint32_t PromiseTable::FindOrAdd(size_t hash, const ObjectKey& key) {
  const uint32_t found = Find(hash, key);
  return found != 0 ? found : Add(hash, key);
}

uint32_t PromiseTable::Add(size_t hash, const ObjectKey& key) {
  const uint32_t number = objects_.Add();
  while (buckets_.size() < objects_.used()) AddBucket();
  PromisedObject& object = objects_[number];
  object.key = key;
  uint32_t& bucket = BucketOf(hash);
  object.next = bucket;
  bucket = number;
  return number;
}

void PromiseTable::EraseIfUnused(uint32_t number) {
  const PromisedObject& object = objects_[number];
  if (object.holders != 0 || object.marks != 0 || object.is_open_to_write) return;
  uint32_t* link = &BucketOf(Hash(object.key));
  while (*link != number) link = &objects_[*link].next;
  *link = object.next;
  objects_.Remove(number);
}

uint32_t PromiseTable::FindHolder(const PromisedObject& object, size_t client) {
  uint32_t number = object.holders;
  while (number != 0 && holders_[number].client != client) number = holders_[number].next;
  return number;
}

uint32_t PromiseTable::AddHolder(uint32_t object, size_t client) {
  const uint32_t number = holders_.Add();
  PromiseHolder& holder = holders_[number];
  holder.client = static_cast<uint16_t>(client);
  holder.object = object;
  holder.next = objects_[object].holders;
  objects_[object].holders = number;
  if (lists_.size() <= client) lists_.resize(client + 1);
  Append(number);
  return number;
}

void PromiseTable::Append(uint32_t number) {
  PromiseHolder& holder = holders_[number];
  List& list = lists_[holder.client];
  holder.older = list.newest;
  holder.newer = 0;
  (list.newest == 0 ? list.oldest : holders_[list.newest].newer) = number;
  list.newest = number;
}

void PromiseTable::Unlink(const PromiseHolder& holder) {
  List& list = lists_[holder.client];
  (holder.older == 0 ? list.oldest : holders_[holder.older].newer) = holder.newer;
  (holder.newer == 0 ? list.newest : holders_[holder.newer].older) = holder.older;
}

void PromiseTable::MakeNewest(uint32_t number) {
  Unlink(holders_[number]);
  Append(number);
}

void PromiseTable::RemoveHolder(uint32_t number) {
  PromiseHolder& holder = holders_[number];
  const uint32_t object = holder.object;
  Unlink(holder);
  uint32_t* link = &objects_[object].holders;
  while (*link != number) link = &holders_[*link].next;
  *link = holder.next;
  holders_.Remove(number);
  EraseIfUnused(object);
}

}  // namespace dafs::server
