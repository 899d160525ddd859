#include "client/state/server/reference_directory.h"

#include <algorithm>

#include "absl/hash/hash.h"

namespace dafs::client {

ReferenceDirectory::ReferenceDirectory(size_t bytes)
    : sets_(std::max<size_t>(bytes / sizeof(Set), 1)) {}

ReferenceDirectory::Set& ReferenceDirectory::SetOf(uint64_t key) {
  return sets_[absl::HashOf(key) % sets_.size()];
}

void ReferenceDirectory::Add(uint32_t file, uint64_t block, const Reference& reference) {
  const uint64_t key = KeyOf(file, block);
  if (file == 0 || key == 0) return;
  Entry* const ways = SetOf(key).ways;
  Entry* const known =
      std::find_if(ways, ways + kWays - 1, [key](const Entry& each) { return each.key == key; });
  std::move_backward(ways, known, known + 1);  // the last way is lost, unless it was known
  ways[0] = {key, reference};
}

std::optional<ReferenceDirectory::Reference> ReferenceDirectory::Find(uint32_t file,
                                                                      uint64_t block) {
  const uint64_t key = KeyOf(file, block);
  if (file == 0 || key == 0) return std::nullopt;
  Entry* const ways = SetOf(key).ways;
  Entry* const known =
      std::find_if(ways, ways + kWays, [key](const Entry& each) { return each.key == key; });
  if (known == ways + kWays) return std::nullopt;
  std::rotate(ways, known, known + 1);
  return ways[0].reference;
}

void ReferenceDirectory::Remove(uint32_t file, uint64_t block) {
  const uint64_t key = KeyOf(file, block);
  if (file == 0 || key == 0) return;
  for (Entry& each : SetOf(key).ways) {
    if (each.key == key) each = Entry();
  }
}

void ReferenceDirectory::Clear() { std::fill(sets_.begin(), sets_.end(), Set()); }

}  // namespace dafs::client
