#include "server/store/holdings/delegations/recent_recalls.h"

#include <cstddef>

#include "absl/hash/hash.h"

namespace dafs::server {

namespace {

uint32_t SecondsOf(absl::Time time) { return static_cast<uint32_t>(absl::ToUnixSeconds(time)); }

// The part of a hash that distinguishes the files at one place.
uint64_t FileBits(uint64_t hash) { return hash & ~uint64_t{0xffffffff}; }

}  // namespace

void RecentRecalls::Note(const ObjectKey& key, absl::Time now) {
  const size_t hash = absl::HashOf(key);
  latest_[hash % latest_.size()].store(FileBits(hash) | SecondsOf(now), std::memory_order_relaxed);
}

bool RecentRecalls::Has(const ObjectKey& key, absl::Time now) const {
  const size_t hash = absl::HashOf(key);
  const uint64_t latest = latest_[hash % latest_.size()].load(std::memory_order_relaxed);
  return FileBits(latest) == FileBits(hash) &&
         SecondsOf(now) - static_cast<uint32_t>(latest) < absl::ToInt64Seconds(kNotAgainFor);
}

}  // namespace dafs::server
