// Undoes changes under AUTORECOVERY locks that have failed or were aborted. One thread for
// all files; it runs from the first time that there is something to undo. Files on an export
// that may hang are handled on that export's threads.
// Spec: 4.4.1.4. server/store/holdings/undo/undo_log.h.
//
// An undo that fails is repeated until it succeeds or the administrator gives it up; the range gets
// DELAY until then.
// Thread-safe; nothing blocks but AwaitIdle and the destructor.
#pragma once

#include <cstddef>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/store/holdings/persistent_locks.h"
#include "server/store/objects/handle.h"
#include "server/store/objects/object.h"
#include "wire/protocol/status.h"

namespace dafs::server {

struct StoreParts;

class Rollbacks {
 public:
  // Borrowed.
  explicit Rollbacks(StoreParts& store) : store_(store) {}
  ~Rollbacks();
  Rollbacks(const Rollbacks&) = delete;
  Rollbacks& operator=(const Rollbacks&) = delete;

  // There may be something to undo.
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);
  // For the administrator: changes of the file whose undo has failed stay. *count is the number of
  // owners whose changes they are; 0: no undo has failed. Waits a second for an attempt that is
  // under way, then DELAY. Otherwise blocks on the disk. Errors of the file; SERVERFAULT: it could
  // not be stored.
  wire::DafsStatus GiveUp(const ObjectKey& file, size_t* count) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns when nothing is to be undone. For tests.
  void AwaitIdle() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr absl::Duration kRetryAfter = absl::Milliseconds(100);
  static constexpr absl::Duration kPatience = absl::Seconds(1);

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void StartAll() ABSL_LOCKS_EXCLUDED(mutex_);
  void UndoFile(const ObjectKey& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns false if it must be repeated; *why says why.
  bool TryFile(const ObjectKey& file, std::string* why);
  bool TryLock(Object& file, const PersistentLocks::Undoing& undoing, std::string* why);
  // The same as GiveUp, while no attempt is under way.
  wire::DafsStatus GiveUpFile(const ObjectKey& key, size_t* count);

  StoreParts& store_;
  absl::Mutex mutex_;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);  // not joinable: nothing was to be undone yet
  bool wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_starting_ ABSL_GUARDED_BY(mutex_) = false;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<ObjectKey> under_way_ ABSL_GUARDED_BY(mutex_);  // undone or given up
  absl::flat_hash_set<ObjectKey> failed_ ABSL_GUARDED_BY(mutex_);     // the log has the reason
};

}  // namespace dafs::server
