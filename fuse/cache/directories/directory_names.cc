#include "fuse/cache/directories/directory_names.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/text.h"

namespace dafs::fuse {
namespace {

// Names whose time has passed are looked for in a full directory, at most this often.
constexpr uint32_t kSweepSeconds = 1;
// A directory's table is made smaller when it uses less than this part of it.
constexpr size_t kSpacious = 16;

}  // namespace

uint32_t DirectoryNames::SecondsAt(absl::Time when) const {
  // Rounded up, because the kernel may use a name until the end of its time.
  const int64_t seconds = absl::ToInt64Seconds(when - start_ + absl::Seconds(1));
  return static_cast<uint32_t>(
      std::clamp<int64_t>(seconds, 0, std::numeric_limits<uint32_t>::max()));
}

DirectoryNames::Name DirectoryNames::NameOf(std::string_view name, const Entry& entry) const {
  return {std::string(name), entry.nodeid, start_ + kTick * (int64_t{entry.given} + 1)};
}

void DirectoryNames::CountAbsent(Directory& directory, const Entry& entry, bool more) {
  if (entry.nodeid != 0) return;
  if (more) {
    ++directory.absent;
    absent_.fetch_add(1, std::memory_order_relaxed);
  } else {
    --directory.absent;
    absent_.fetch_sub(1, std::memory_order_relaxed);
  }
}

void DirectoryNames::Sweep(Directory& directory, uint32_t now) {
  if (now - directory.swept < kSweepSeconds) return;
  directory.swept = now;
  absl::erase_if(directory.names, [&](const auto& name) {
    if (name.second.until >= now) return false;
    CountAbsent(directory, name.second, /*more=*/false);
    return true;
  });
}

bool DirectoryNames::HasRoom(Directory& directory, bool absent, uint32_t now) {
  const auto has = [&] {
    if (directory.names.size() >= kMostNames) return false;
    return !absent || (directory.absent < kMostAbsent &&
                       absent_.load(std::memory_order_relaxed) < kMostAbsentOfAll);
  };
  if (has()) return true;
  Sweep(directory, now);
  return has();
}

void DirectoryNames::Put(Directory& directory, std::string_view name, const Entry& entry) {
  auto known = directory.names.find(Text(name));
  if (known != directory.names.end()) {
    CountAbsent(directory, known->second, /*more=*/false);
    known->second = entry;
  } else {
    directory.names.emplace(name, entry);
  }
  CountAbsent(directory, entry, /*more=*/true);
}

bool DirectoryNames::Insert(uint64_t directory, std::string_view name, uint64_t nodeid,
                            absl::Time now, absl::Time until) {
  Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  Directory& found = shard.directories[directory];
  if (now < found.distrusted_until) return false;
  Entry entry;
  entry.nodeid = nodeid;
  entry.given = static_cast<uint32_t>((now - start_) / kTick);
  entry.until = SecondsAt(until);
  auto known = found.names.find(Text(name));
  if (known != found.names.end()) {
    if (known->second.nodeid != 0 && nodeid == 0 && !HasRoom(found, true, SecondsAt(now))) {
      return false;
    }
    // The kernel may use an earlier answer for longer.
    entry.until = std::max(entry.until, known->second.until);
  } else if (!HasRoom(found, nodeid == 0, SecondsAt(now))) {
    return false;
  }
  Put(found, name, entry);
  return true;
}

std::optional<DirectoryNames::Entry> DirectoryNames::Take(const DentryName& dentry,
                                                          absl::Time now) {
  Shard& shard = ShardOf(dentry.parent);
  absl::MutexLock lock(&shard.mutex);
  auto directory = shard.directories.find(dentry.parent);
  if (directory == shard.directories.end()) return std::nullopt;
  auto known = directory->second.names.find(dentry.name);
  if (known == directory->second.names.end()) return std::nullopt;
  if (known->second.until < SecondsAt(now) - 1) return std::nullopt;
  return known->second;
}

std::vector<DirectoryNames::Move> DirectoryNames::Moved(const DentryName& from,
                                                        const DentryName& to, bool exchanged,
                                                        absl::Time now) {
  std::vector<Move> moves;
  const std::optional<Entry> entry = Take(from, now);
  const std::optional<Entry> other = exchanged ? Take(to, now) : std::nullopt;
  const auto move = [&](const std::optional<Entry>& moving, const DentryName& away,
                        const DentryName& dentry) {
    if (!moving.has_value() || moving->nodeid == 0) return;
    Shard& shard = ShardOf(dentry.parent);
    absl::MutexLock lock(&shard.mutex);
    // Without regard to limits: the kernel has the name already.
    Put(shard.directories[dentry.parent], dentry.name, *moving);
    moves.push_back({moving->nodeid, away, dentry});
  };
  move(entry, from, to);
  move(other, to, from);
  return moves;
}

std::optional<DirectoryNames::Name> DirectoryNames::Find(uint64_t directory, std::string_view name,
                                                         absl::Time now) const {
  Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  auto found = shard.directories.find(directory);
  if (found == shard.directories.end()) return std::nullopt;
  auto known = found->second.names.find(Text(name));
  if (known == found->second.names.end()) return std::nullopt;
  if (known->second.until < SecondsAt(now) - 1) return std::nullopt;
  return NameOf(known->first, known->second);
}

std::vector<DirectoryNames::Name> DirectoryNames::NamesOf(uint64_t directory,
                                                          absl::Time now) const {
  std::vector<Name> names;
  const uint32_t second = SecondsAt(now) - 1;
  Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  auto found = shard.directories.find(directory);
  if (found == shard.directories.end()) return names;
  for (const auto& [name, entry] : found->second.names) {
    if (entry.until >= second) names.push_back(NameOf(name, entry));
  }
  return names;
}

std::vector<uint64_t> DirectoryNames::Directories(uint64_t shard) const {
  std::vector<uint64_t> directories;
  absl::MutexLock lock(&shards_[shard].mutex);
  for (const auto& [nodeid, names] : shards_[shard].directories) directories.push_back(nodeid);
  return directories;
}

void DirectoryNames::Distrust(uint64_t directory, absl::Time until) {
  Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  shard.directories[directory].distrusted_until = until;
}

void DirectoryNames::CachesListing(uint64_t directory) {
  Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  shard.directories[directory].listing.cached = true;
}

void DirectoryNames::Listed(uint64_t directory, const client::Promise& names) {
  Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  auto found = shard.directories.find(directory);
  if (found != shard.directories.end()) found->second.listing.names = names;
}

DirectoryNames::Listing DirectoryNames::ListingOf(uint64_t directory) const {
  Shard& shard = ShardOf(directory);
  absl::MutexLock lock(&shard.mutex);
  auto found = shard.directories.find(directory);
  return found == shard.directories.end() ? Listing() : found->second.listing;
}

void DirectoryNames::Forget(uint64_t nodeid, const DentryName& dentry) {
  {
    Shard& shard = ShardOf(nodeid);
    absl::MutexLock lock(&shard.mutex);
    auto found = shard.directories.find(nodeid);
    if (found != shard.directories.end()) {
      absent_.fetch_sub(found->second.absent, std::memory_order_relaxed);
      shard.directories.erase(found);
    }
  }
  Shard& shard = ShardOf(dentry.parent);
  absl::MutexLock lock(&shard.mutex);
  auto parent = shard.directories.find(dentry.parent);
  if (parent == shard.directories.end()) return;
  auto& names = parent->second.names;
  auto known = names.find(dentry.name);
  // The name may lead to another node by now.
  if (known == names.end() || known->second.nodeid != nodeid) return;
  names.erase(known);
  if (names.capacity() > kSpacious * (names.size() + 1)) names.rehash(0);
}

size_t DirectoryNames::size() const {
  size_t names = 0;
  for (Shard& shard : shards_) {
    absl::MutexLock lock(&shard.mutex);
    for (const auto& [nodeid, directory] : shard.directories) names += directory.names.size();
  }
  return names;
}

}  // namespace dafs::fuse
