// Records in the state directory the file systems in which the server has made an orphan directory
// (orphans.h). At a start the server finds the mounts of this machine without it, but not Btrfs
// subvolumes and network mounts that no client visits. Thread-safe. Blocks on the state directory
// only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/store/objects/mounts.h"

namespace dafs::server {

class OrphanRecord {
 public:
  struct Entry {
    wire::FsHandle fshandle;
    uint64_t subvolume = 0;
    bool operator==(const Entry&) const = default;
  };
  // The oldest entry is dropped beyond this number. Entries of deleted subvolumes stay until the
  // next start.
  static constexpr size_t kMost = 1024;

  // Reads the record of earlier runs. Logs entries that cannot be read, and ignores them.
  explicit OrphanRecord(std::string state_dir);

  // Call before the directory of `fs` is made. Writes only if `fs` has no entry yet. Add and Remove
  // need the server's own identity.
  void Add(const FileSystem& fs) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(const Entry& entry) ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<Entry> entries() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string state_dir_;
  mutable absl::Mutex mutex_;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace dafs::server
