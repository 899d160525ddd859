// The undo log: before the first change of a byte under an AUTORECOVERY lock, its old value is
// saved, so that the change can be undone if the holder or the server fails.
// Spec: 4.4.1.4, 4.4.1.5, 4.4.1.6. docs/persistent-locks.md.
//
// Order on the disk: the old bytes (undo_files.h), their row in the database, the change. A row is
// removed once the changes are final or undone, and are on the disk. So an undo may be interrupted
// anywhere, and is repeated from the start.
//
// Thread-safe. The callers order Save, and the other functions that block, by the file's
// AppendLock: Save with the lock shared, before the change; others after they had it exclusively
// once, with the lock's record in PersistentLocks refusing further changes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/store/durable/database.h"
#include "server/store/holdings/locks/lock_holder.h"
#include "server/store/holdings/undo/undo_files.h"
#include "server/store/holdings/undo/undo_record.h"
#include "server/store/holdings/undo/undo_rows.h"
#include "server/store/objects/handle.h"
#include "server/store/objects/object.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/status.h"

namespace dafs::server {

class UndoLog {
 public:
  // `database` is borrowed. `tag`: see UndoFiles. `most_bytes` limits the saved bytes of all locks.
  UndoLog(Database& database, std::string tag, uint64_t most_bytes)
      : database_(database), files_(std::move(tag)), most_bytes_(most_bytes) {}
  UndoLog(const UndoLog&) = delete;
  UndoLog& operator=(const UndoLog&) = delete;

  // Reads the rows. Call before the first request, after the database was opened. Errors name the
  // remedy: kFailedPrecondition.
  absl::Status Load() ABSL_LOCKS_EXCLUDED(mutex_);
  // A file system was found: removes undo files without a row.
  void Tidy(const FileSystem& fs) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether there can be AUTORECOVERY locks on this file system.
  bool Offers(const FileSystem& fs) const { return most_bytes_ > 0 && files_.Offers(fs); }

  // One owner's AUTORECOVERY locks on a file, as bytes of the file.
  struct Lock {
    LockHolder holder;
    wire::LockRanges bytes;
    bool is_own = false;  // of the client that makes the change
  };
  // Whether Save has something to do for a change. Cheap: nothing is allocated unless a part of the
  // change is saved and another is not. `bytes` is null for a lock of another client.
  bool MustSave(const ObjectKey& file, const LockHolder& holder, const wire::LockRanges* bytes,
                const UndoChange& change) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Saves what `change` needs. `locks` has all AUTORECOVERY locks of the file. Leaves the thread
  // with the server's own identity. NOSPC: the limit, or the disk is full. IO, SERVERFAULT.
  wire::DafsStatus Save(Object& file, const std::vector<Lock>& locks, const UndoChange& change)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // How a record is to change, together with the locks in the database: a transaction calls Write,
  // and Finish follows.
  struct Change {
    ObjectKey file;
    LockHolder holder;
    int64_t id = 0;  // 0: there is nothing to change
    UndoRecord after;
    bool is_written = false;
  };
  // Undoes the changes of `undone`, while the owner keeps `kept`, and waits for the disk. `appends`
  // is the file's AppendLock, which is taken exclusively to change the size. Returns 0 or an errno.
  int Undo(Object& file, const LockHolder& holder, const wire::LockRanges& undone,
           const wire::LockRanges& kept, absl::Mutex& appends, Change* change)
      ABSL_LOCKS_EXCLUDED(mutex_, appends);
  // Whether any of `bytes` is saved.
  bool HasSaved(const ObjectKey& file, const LockHolder& holder,
                const wire::LockRanges& bytes) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until the file's data is on the disk. Returns 0 or an errno.
  static int Sync(Object& file);
  // The owner unlocks all but `kept`. Waits until its changes are on the disk. Returns 0 or an
  // errno.
  int Commit(Object& file, const LockHolder& holder, const wire::LockRanges& kept, Change* change)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The change after which all bytes of the file but `kept` are final, saved or not. Does not
  // block.
  Change Final(const ObjectKey& file, const LockHolder& holder, const wire::LockRanges& kept,
               uint64_t file_size) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Write(sqlite3* connection, Change* change) const;
  // After the transaction. Does nothing unless it has written the change and was committed.
  void Finish(const FileSystem& fs, const Change& change) ABSL_LOCKS_EXCLUDED(mutex_);

  // The file is gone. `fs`: its file system, null if that is not known; then Tidy removes the undo
  // files later. Blocks on the disk.
  void Drop(const ObjectKey& file, const FileSystem* fs) ABSL_LOCKS_EXCLUDED(mutex_);

  // Saved bytes, rounded up for each range.
  uint64_t used_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry : UndoEntry {
    uint64_t charged = 0;  // bytes
  };
  using Entries = std::vector<Entry>;

  static uint64_t ChargeOf(const UndoRecord& record);
  static const Entry* Find(const Entries& entries, const LockHolder& holder);
  std::optional<Entry> EntryOf(const ObjectKey& file, const LockHolder& holder) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // An entry that is about to change, and what is added to it.
  struct Saving {
    Entry entry;
    UndoRecord steps;
    bool is_new = false;
    uint64_t reserved = 0;  // of used_
  };
  wire::DafsStatus SaveLock(Object& file, int fd, const Lock& lock, const UndoChange& change,
                            uint64_t file_size, std::vector<Saving>* all)
      ABSL_LOCKS_EXCLUDED(mutex_);
  wire::DafsStatus SaveLocks(Object& file, const std::vector<Lock>& locks, const UndoChange& change,
                             std::vector<Saving>* all) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Mutex& SavingOf(const ObjectKey& file) {
    return saving_[absl::Hash<ObjectKey>{}(file) % saving_.size()];
  }

  Database& database_;
  const UndoFiles files_;
  const uint64_t most_bytes_;
  std::array<absl::Mutex, 16> saving_;  // one Save of a file at a time. Before mutex_
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<ObjectKey, Entries> entries_ ABSL_GUARDED_BY(mutex_);  // none is empty
  std::set<int64_t> ids_ ABSL_GUARDED_BY(mutex_);                            // of undo files
  uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dafs::server
