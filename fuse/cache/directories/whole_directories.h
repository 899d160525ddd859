// The directories of which this mount knows every name: those that it has listed from start to end,
// with what it has changed there since. The mount answers by itself that another name does not
// exist in them. Used only for names that are promised and that only clients change
// (docs/caching.md).
//
// A directory is whole until the server announces a change of its names: the caller checks the
// promise that comes with each answer. Every change of names by this mount is reported here. A name
// counts as one that may exist from before the request that makes it until one that has removed it
// has succeeded.
//
// Directories are known by their handles, because one may have several nodes
// (InodeTable::Remember). Thread-safe. Each shard has a mutex, held for a few lookups, or for the
// names of one directory. Memory: at most kMostBytes in a shard. The names of other directories
// make room, and a directory with more is not whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/state/promises.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

class WholeDirectories {
 public:
  static constexpr size_t kShards = 16;
  static constexpr size_t kMostBytes = size_t{2} << 20;  // some 25,000 names of usual length
  // The memory that a name is counted with: its length, and about that of its place in a table.
  static size_t BytesOf(std::string_view name) { return name.size() + 64; }

  WholeDirectories() = default;
  WholeDirectories(const WholeDirectories&) = delete;
  WholeDirectories& operator=(const WholeDirectories&) = delete;

  // Changes of names by this mount. `appears` may exist from now on; empty: no name appears. Call
  // before the request is sent, and End after its reply, once for each Begin.
  struct Change {
    uint64_t number = 0;
    bool alone = false;  // no other change of the directory was in progress when it began
  };
  Change Begin(const wire::FileHandle& directory, std::string_view appears);
  enum class Outcome : uint8_t {
    kKnown,   // as requested, or nothing has vanished
    kUnsure,  // the directory is not whole any more
  };
  // `vanished` no longer exists; empty: no name has vanished. The outcome counts as kUnsure if a
  // name has vanished and another change of this mount was in progress meanwhile.
  void End(const wire::FileHandle& directory, const Change& change, std::string_view vanished,
           Outcome outcome = Outcome::kKnown);

  // Listings. BeginListing is called before the first request of a listing; it returns the number
  // of the listing, or 0 while this mount changes names of the directory. EndListing is called with
  // all names after the last reply. `promise` is the oldest one of the replies. The directory is
  // whole until `until`, unless this mount has changed names in it since BeginListing, a later
  // listing has begun, or there are too many names.
  uint64_t BeginListing(const wire::FileHandle& directory);
  void EndListing(const wire::FileHandle& directory, uint64_t listing,
                  const std::vector<std::string>& names, const client::Promise& promise,
                  absl::Time until);
  // This mount has made the directory, so a listing of it costs no more than a lookup.
  void Made(const wire::FileHandle& directory);
  // As BeginListing, once after Made. Otherwise returns 0.
  uint64_t BeginListingOfMade(const wire::FileHandle& directory);

  // Returns the promise under which `name` does not exist in the directory, to be checked by the
  // caller; none if the name may exist.
  client::Promise PromiseOfAbsence(const wire::FileHandle& directory, std::string_view name,
                                   absl::Time now) const;
  // All names that may exist in the directory, if it is whole and they are at most `most`, and
  // their promise, to be checked by the caller.
  struct Names {
    client::Promise promise;
    std::vector<std::string> names;
  };
  std::optional<Names> NamesOf(const wire::FileHandle& directory, size_t most,
                               absl::Time now) const;

  // The kernel has forgotten a node of the directory, or may not keep its names.
  void Forget(const wire::FileHandle& directory);

  // The number of directories that are known here.
  size_t size() const;

 private:
  struct Directory {
    uint32_t changing = 0;     // changes of this mount in progress
    uint64_t last_change = 0;  // number of the change that began last
    uint64_t listing = 0;      // number of the listing that may make it whole; 0: none
    bool made = false;
    client::Promise promise;  // none: not whole
    absl::Time until = absl::InfinitePast();
    absl::flat_hash_set<std::string> names;
    size_t bytes = 0;  // of `names`
  };
  struct Shard {
    mutable absl::Mutex mutex;
    absl::flat_hash_map<wire::FileHandle, Directory> directories ABSL_GUARDED_BY(mutex);
    uint64_t last_number ABSL_GUARDED_BY(mutex) = 0;  // of changes and listings
    size_t bytes ABSL_GUARDED_BY(mutex) = 0;          // of all directories
  };

  Shard& ShardOf(const wire::FileHandle& directory) const;
  static uint64_t BeginListing(Shard& shard, Directory& directory)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex);
  static void AddName(Shard& shard, Directory& directory, std::string_view name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex);
  // Ends what makes the directory whole, if it is.
  static void DropNames(Shard& shard, Directory& directory)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex);
  // Drops the names of others until those of all directories fit.
  static void MakeRoom(Shard& shard, const Directory& except)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex);
  // Whether nothing is known of the directory.
  static bool IsIdle(const Directory& directory) {
    return directory.changing == 0 && directory.listing == 0 && !directory.made &&
           !directory.promise;
  }

  mutable std::array<Shard, kShards> shards_;
};

}  // namespace dafs::fuse
