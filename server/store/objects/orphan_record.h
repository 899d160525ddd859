// The file systems in which the server has made an orphan directory (orphans.h), kept in the state
// directory. A start finds the mounts of this machine by itself; it does not find Btrfs subvolumes
// and network mounts that no client visits.
// Thread-safe. Waits for the state directory alone.
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
  // Beyond these the oldest goes. Deleted subvolumes leave entries until the next start.
  static constexpr size_t kMost = 1024;

  // Reads what earlier runs have recorded. What cannot be read is logged, and counts as empty.
  explicit OrphanRecord(std::string state_dir);

  // Before the directory of `fs` is made. Writes only if `fs` has no entry yet. By the server's own
  // identity, as Remove.
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
