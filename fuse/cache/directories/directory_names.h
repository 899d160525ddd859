// The names that the kernel may use without a request: for each directory, the names that exist
// and, under a promise, those that are known to be absent (docs/caching.md). When the server
// announces a change of a name, the kernel must drop the name if it is here.
//
// A name stays here until its time has passed, or the kernel has forgotten its node or directory.
// The kernel may have dropped it before: then to drop it again does no harm.
//
// Thread-safe. Each shard has a mutex, held for a few lookups, or for the names of one directory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/state/promises.h"
#include "fuse/cache/directories/dentry_name.h"

namespace dafs::fuse {

class DirectoryNames {
 public:
  static constexpr uint64_t kShards = 16;
  // Names beyond these are not cached by the kernel.
  static constexpr size_t kMostNames = size_t{64} << 10;        // of one directory
  static constexpr size_t kMostAbsent = 1024;                   // of one directory
  static constexpr size_t kMostAbsentOfAll = size_t{64} << 10;  // of the mount

  // `now`: the times of names are kept relative to it.
  explicit DirectoryNames(absl::Time now) : start_(now) {}
  DirectoryNames(const DirectoryNames&) = delete;
  DirectoryNames& operator=(const DirectoryNames&) = delete;

  // The kernel is about to receive that `name` of `directory` leads to `nodeid` (0: to no node),
  // and may use that until `until`. Call this before the caller checks for the last time that the
  // promise is good: an announced change then finds the name, or the check fails. Returns false if
  // the kernel may not keep the name.
  bool Insert(uint64_t directory, std::string_view name, uint64_t nodeid, absl::Time now,
              absl::Time until);
  // This mount renames. The kernel moves the name with its time to `to`; if `exchanged`, also that
  // of `to` to `from`. Call this before the kernel is answered. Returns the names that the kernel
  // may use at their new places.
  struct Move {
    uint64_t nodeid;
    DentryName from;
    DentryName to;
  };
  std::vector<Move> Moved(const DentryName& from, const DentryName& to, bool exchanged,
                          absl::Time now);

  struct Name {
    std::string name;
    uint64_t nodeid = 0;  // 0: known to be absent
    absl::Time given;     // to the kernel
  };
  // Returns the name if the kernel may use it at `now`.
  std::optional<Name> Find(uint64_t directory, std::string_view name, absl::Time now) const;
  // All names of the directory that the kernel may use at `now`.
  std::vector<Name> NamesOf(uint64_t directory, absl::Time now) const;
  // The directories of one shard that have names here.
  std::vector<uint64_t> Directories(uint64_t shard) const;

  // The kernel does not keep names of the directory until `until`: one could not be dropped in
  // time.
  void Distrust(uint64_t directory, absl::Time until);

  // The kernel may cache the listing of the directory from now on.
  void CachesListing(uint64_t directory);
  // The kernel was sent the whole listing; `names` is the oldest promise of its parts.
  void Listed(uint64_t directory, const client::Promise& names);
  struct Listing {
    bool cached = false;    // CachesListing was called
    client::Promise names;  // of Listed; none: the kernel was not sent all of it
  };
  Listing ListingOf(uint64_t directory) const;

  // The kernel has forgotten node `nodeid`, last found at `dentry`.
  void Forget(uint64_t nodeid, const DentryName& dentry);

  size_t size() const;

 private:
  struct Entry {
    uint64_t nodeid = 0;
    uint32_t given = 0;  // in kTick since start_
    uint32_t until = 0;  // in seconds since start_
  };
  struct Directory {
    absl::flat_hash_map<std::string, Entry> names;
    size_t absent = 0;   // of `names`
    uint32_t swept = 0;  // in seconds since start_
    absl::Time distrusted_until = absl::InfinitePast();
    Listing listing;
  };
  struct Shard {
    mutable absl::Mutex mutex;
    absl::flat_hash_map<uint64_t, Directory> directories ABSL_GUARDED_BY(mutex);
  };
  static constexpr absl::Duration kTick = absl::Milliseconds(10);

  Shard& ShardOf(uint64_t directory) const { return shards_[directory % kShards]; }
  uint32_t SecondsAt(absl::Time when) const;
  Name NameOf(std::string_view name, const Entry& entry) const;
  bool HasRoom(Directory& directory, bool absent, uint32_t now);
  void Sweep(Directory& directory, uint32_t now);
  void Put(Directory& directory, std::string_view name, const Entry& entry);
  void CountAbsent(Directory& directory, const Entry& entry, bool more);
  std::optional<Entry> Take(const DentryName& dentry, absl::Time now);

  const absl::Time start_;
  std::atomic<size_t> absent_{0};  // of all directories; publishes nothing
  mutable std::array<Shard, kShards> shards_;
};

}  // namespace dafs::fuse
