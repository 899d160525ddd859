#include "fuse/cache/directories/whole_directories.h"

#include "absl/hash/hash.h"
#include "runtime/text.h"

namespace dafs::fuse {
WholeDirectories::Shard& WholeDirectories::ShardOf(const wire::FileHandle& directory) const {
  return shards_[(absl::HashOf(directory) >> 32) % kShards];
}

void WholeDirectories::DropNames(Shard& shard, Directory& directory) {
  if (!directory.promise) return;
  shard.bytes -= directory.bytes;
  directory.bytes = 0;
  directory.names = {};
  directory.promise = {};
}

void WholeDirectories::MakeRoom(Shard& shard, const Directory& except) {
  for (auto it = shard.directories.begin();
       shard.bytes > kMostBytes && it != shard.directories.end();) {
    const auto each = it++;
    if (&each->second == &except) continue;
    DropNames(shard, each->second);
    if (IsIdle(each->second)) shard.directories.erase(each);
  }
}

void WholeDirectories::AddName(Shard& shard, Directory& directory, std::string_view name) {
  if (directory.names.contains(Text(name))) return;
  directory.names.emplace(name);
  directory.bytes += BytesOf(name);
  shard.bytes += BytesOf(name);
}

WholeDirectories::Change WholeDirectories::Begin(const wire::FileHandle& directory,
                                                 std::string_view appears) {
  Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  Directory& found = shard.directories[directory];
  const Change change = {.number = ++shard.last_number, .alone = found.changing == 0};
  ++found.changing;
  found.last_change = change.number;
  found.listing = 0;
  if (!found.promise || appears.empty()) return change;
  AddName(shard, found, appears);
  if (found.bytes > kMostBytes) DropNames(shard, found);
  if (shard.bytes > kMostBytes) MakeRoom(shard, found);
  return change;
}

void WholeDirectories::End(const wire::FileHandle& directory, const Change& change,
                           std::string_view vanished, Outcome outcome) {
  Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  const auto found = shard.directories.find(directory);
  if (found == shard.directories.end()) return;
  Directory& changed = found->second;
  --changed.changing;
  const bool undisturbed = change.alone && changed.last_change == change.number;
  if (outcome == Outcome::kUnsure || (!vanished.empty() && !undisturbed)) {
    DropNames(shard, changed);
  } else if (const auto name = changed.names.find(Text(vanished)); name != changed.names.end()) {
    changed.bytes -= BytesOf(vanished);
    shard.bytes -= BytesOf(vanished);
    changed.names.erase(name);
  }
  if (IsIdle(changed)) shard.directories.erase(found);
}

uint64_t WholeDirectories::BeginListing(Shard& shard, Directory& directory) {
  directory.listing = ++shard.last_number;
  return directory.listing;
}

uint64_t WholeDirectories::BeginListing(const wire::FileHandle& directory) {
  Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  Directory& found = shard.directories[directory];
  return found.changing > 0 ? 0 : BeginListing(shard, found);
}

void WholeDirectories::EndListing(const wire::FileHandle& directory, uint64_t listing,
                                  const std::vector<std::string>& names,
                                  const client::Promise& promise, absl::Time until) {
  if (listing == 0) return;
  Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  const auto found = shard.directories.find(directory);
  if (found == shard.directories.end() || found->second.listing != listing) return;
  Directory& listed = found->second;
  listed.listing = 0;
  DropNames(shard, listed);
  size_t bytes = 0;
  for (const std::string& name : names) bytes += BytesOf(name);
  if (promise && bytes <= kMostBytes) {
    listed.promise = promise;
    listed.until = until;
    listed.names.reserve(names.size());
    for (const std::string& name : names) AddName(shard, listed, name);
  }
  if (shard.bytes > kMostBytes) MakeRoom(shard, listed);
  if (IsIdle(listed)) shard.directories.erase(directory);
}

void WholeDirectories::Made(const wire::FileHandle& directory) {
  Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  shard.directories[directory].made = true;
}

uint64_t WholeDirectories::BeginListingOfMade(const wire::FileHandle& directory) {
  Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  const auto found = shard.directories.find(directory);
  if (found == shard.directories.end() || !found->second.made) return 0;
  if (found->second.changing > 0) return 0;
  found->second.made = false;
  return BeginListing(shard, found->second);
}

client::Promise WholeDirectories::PromiseOfAbsence(const wire::FileHandle& directory,
                                                   std::string_view name, absl::Time now) const {
  const Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  const auto found = shard.directories.find(directory);
  if (found == shard.directories.end()) return {};
  const Directory& known = found->second;
  if (!known.promise || now >= known.until || known.names.contains(Text(name))) return {};
  return known.promise;
}

std::optional<WholeDirectories::Names> WholeDirectories::NamesOf(const wire::FileHandle& directory,
                                                                 size_t most,
                                                                 absl::Time now) const {
  const Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  const auto found = shard.directories.find(directory);
  if (found == shard.directories.end()) return std::nullopt;
  const Directory& known = found->second;
  if (!known.promise || now >= known.until || known.changing > 0) return std::nullopt;
  if (known.names.size() > most) return std::nullopt;
  return Names{known.promise, {known.names.begin(), known.names.end()}};
}

void WholeDirectories::Forget(const wire::FileHandle& directory) {
  Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  const auto found = shard.directories.find(directory);
  if (found == shard.directories.end()) return;
  DropNames(shard, found->second);
  found->second.listing = 0;
  found->second.made = false;
  if (IsIdle(found->second)) shard.directories.erase(found);
}

size_t WholeDirectories::size() const {
  size_t directories = 0;
  for (const Shard& shard : shards_) {
    absl::MutexLock lock(&shard.mutex);
    directories += shard.directories.size();
  }
  return directories;
}

}  // namespace dafs::fuse
