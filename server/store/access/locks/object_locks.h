// The mutexes that serialise requests on one file, or on one name of a directory. They are held
// during system calls, which may hang, so each export has its own.
// Thread-safe. Lock order: NameGuard or ReclaimLock (never both), FileLock, AppendLock.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/hash/hash.h"
#include "absl/synchronization/mutex.h"
#include "server/store/objects/export_set.h"
#include "server/store/objects/handle.h"
#include "server/store/objects/mounts.h"
#include "server/store/objects/object.h"

namespace dafs::server {

// Keeps all other requests from creating, removing or renaming one name or two, from before the
// journal records the intent until it records the outcome.
class NameGuard {
 public:
  using Mutexes = std::array<absl::Mutex, 256>;
  NameGuard(Mutexes& mutexes, const ObjectKey& directory, const std::string& name);
  NameGuard(Mutexes& mutexes, const ObjectKey& directory, const std::string& name,
            const ObjectKey& other_directory, const std::string& other_name);
  ~NameGuard() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  NameGuard(const NameGuard&) = delete;
  NameGuard& operator=(const NameGuard&) = delete;

 private:
  void Lock() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  absl::Mutex* first_;
  absl::Mutex* second_ = nullptr;  // of two names; null if both share one mutex
};

class ObjectLocks {
 public:
  // Both are borrowed.
  ObjectLocks(const ExportSet& exports, const Mounts& mounts);

  // Makes the mutexes of a new export, before its index can be found. One thread at a time.
  void Add(size_t export_index);

  // Serialises opens, closes, locks and removals of a file; see server/store/procedures/removal.h.
  absl::Mutex& FileLock(const ObjectKey& key) {
    auto& locks = Of(key).files;
    return locks[absl::Hash<ObjectKey>{}(key) % locks.size()];
  }
  NameGuard GuardName(const Object& directory, const std::string& name) {
    return NameGuard(Of(directory.key()).names, directory.key(), name);
  }
  NameGuard GuardNames(const Object& directory, const std::string& name, const Object& other,
                       const std::string& other_name) {
    return NameGuard(Of(directory.key()).names, directory.key(), name, other.key(), other_name);
  }

  // Writers of a file hold it shared. Other changes of the size hold it exclusively, except an
  // ALLOCATE that moves no bytes (ranges.cc). An append is one of them, because it uses the
  // position of the file's descriptors, which only a holder may move.
  absl::Mutex& AppendLock(const ObjectKey& key) {
    auto& locks = Of(key).appends;
    return locks[absl::Hash<ObjectKey>{}(key) % locks.size()];
  }

  // For reclaims, one open at a time. Lock order: before the file's lock.
  absl::Mutex& ReclaimLock(const ObjectKey& key) { return Of(key).reclaiming; }

 private:
  struct Locks {
    std::array<absl::Mutex, 64> files;
    std::array<absl::Mutex, 64> appends;
    NameGuard::Mutexes names;
    absl::Mutex reclaiming;
  };
  Locks& Of(const ObjectKey& key) {
    if (exports_.size() == 1) return *locks_[0];
    return *locks_[mounts_.ExportOf(key.fshandle()).value_or(0)];
  }

  const ExportSet& exports_;
  const Mounts& mounts_;
  std::vector<std::unique_ptr<Locks>> locks_;  // by export
};

}  // namespace dafs::server
