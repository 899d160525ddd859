// The PERSIST and AUTORECOVERY locks: what stays of a lock when its holder fails in the middle of
// its work. Spec: 4.4.1.3 to 4.4.1.6, 6.5.18; WIRE R11.
//
// While its owner holds it, such a lock is a lock of the LockTable like any other. Its record in
// this class outlives the owner, the client and the server. The states of a record:
//
//   held       the owner holds the lock
//   breakable  the owner has failed. It may lock again, as if nothing had happened. Without PERSIST
//              a record is in this state only after a restart, until the grace period ends
//   broken     another owner requested the range meanwhile, or the client is a new instance. No
//              LOCK is granted but one with REPAIR
//   in repair  an owner holds the range by a LOCK with REPAIR. Its LOCKU ends the record; if it
//              fails, the record is broken again
//   undoing    the changes under an AUTORECOVERY lock are being undone (undo_log.h,
//              server/store/parts/rollbacks.h). All use of the range gets DELAY. Afterwards the
//              record is gone; if it is PERSIST too, broken; after ABORT, held
//
// The database stores held and breakable as one state, and broken and in repair as one, because no
// owner holds anything after a restart. Undoing is a state of its own, except after ABORT.
//
// The ranges are mandatory among clients: CheckIo. A flock(2) lock stands for the whole file.
// Programs on the server are kept out only while an owner holds the lock.
//
// Thread-safe. The caller serialises LOCK, LOCKU and the ends of opens of one file
// (ObjectLocks::FileLock).
// Functions that return a status write the database when something changes, and block on the disk
// then. SERVERFAULT or RESOURCE: it could not be stored, and nothing has changed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/store/durable/database.h"
#include "server/store/holdings/locks/lock_holder.h"
#include "server/store/holdings/locks/lock_table.h"
#include "server/store/objects/handle.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct Caller;

class PersistentLocks {
 public:
  // `database` is borrowed and outlives this.
  explicit PersistentLocks(Database& database) : database_(database) {}
  PersistentLocks(const PersistentLocks&) = delete;
  PersistentLocks& operator=(const PersistentLocks&) = delete;

  // Reads the records. Call before the first request. Errors name the remedy: kFailedPrecondition.
  absl::Status Load() ABSL_LOCKS_EXCLUDED(mutex_);

  // Sets what is called when changes are to be undone: it must not block or call this class. Call
  // before Load.
  void OnUndo(std::function<void()> wake) { wake_ = std::move(wake); }

  // Whether there may be a record of the file. False is certain; then the other functions need not
  // be called. One load while there is no record at all, otherwise two.
  bool MayConcern(const ObjectKey& file) const {
    return any_.load() && marks_[MarkOf(file)].load() != 0;
  }

  // The bytes that a request reads or writes. There may be none.
  struct Io {
    uint64_t offset = 0;
    uint64_t length = 0;
    bool write = false;
  };
  // Whether `caller` may do it. LOCKED: another client has locked a part of it, or `has_state` is
  // false and a lock there is broken. STALE_STATEID: it is broken. DELAY: a part is being undone.
  wire::DafsStatus CheckIo(const Caller& caller, bool has_state, const ObjectKey& file,
                           const Io& io) const ABSL_LOCKS_EXCLUDED(mutex_);

  // A LOCK, before that of the LockTable: OK, or LOCK_BROKEN with the broken lock in *conflict, or
  // DELAY: a part is being undone. A breakable lock that conflicts breaks. With `repair`: INVAL if
  // nothing is broken; LOCK_RANGE if a broken lock extends beyond `range`.
  wire::DafsStatus Admit(const Caller& caller, const ObjectKey& file, const std::string& owner,
                         const wire::LockRange& range, bool repair, LockTable::Conflict* conflict)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);
  // Bits: what a lock does beyond an ordinary one.
  enum Kind : uint8_t { kPersists = 1, kRecovers = 2 };
  // The LockTable has granted the LOCK. Records it if it has a `kind`, or if the owner has a record
  // that overlaps: a persistent lock stays one until LOCKU. A lock for reading recovers nothing:
  // the caller has committed what was changed before.
  wire::DafsStatus Granted(const Caller& caller, const ObjectKey& file, const std::string& owner,
                           const wire::LockRange& range, uint8_t kind, bool repair)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);
  // The kinds of the owner's locks that overlap `range`, together.
  uint8_t KindOf(const wire::ClientId& client_id, const ObjectKey& file, const std::string& owner,
                 const wire::LockRange& range) const ABSL_LOCKS_EXCLUDED(mutex_);
  // For LOCKT, which breaks nothing. OK; LOCK_BROKEN; DENIED: a breakable lock conflicts; DELAY.
  wire::DafsStatus Test(const Caller& caller, const ObjectKey& file, const std::string& owner,
                        const wire::LockRange& range, LockTable::Conflict* conflict) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the owner has a record that is not broken and covers `range`, so that it may reclaim
  // the lock at any time.
  bool MayReclaim(const Caller& caller, const ObjectKey& file, const std::string& owner,
                  const wire::LockRange& range) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Another change in the same transaction.
  using Extra = absl::FunctionRef<absl::Status(sqlite3*)>;
  // LOCKU or CLOSE of the client: what the owner holds between `first` and `last`, by PERSIST,
  // AUTORECOVERY or REPAIR, has no record any more. `extra` becomes part of the transaction; it is
  // not called if the owner holds nothing there. DELAY: a part is being undone.
  wire::DafsStatus Release(const wire::ClientId& client_id, const ObjectKey& file,
                           const std::string& owner, uint64_t first, uint64_t last, Extra extra)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);
  // The owner's locks end in another way: they are breakable now, or broken again, or their changes
  // are to be undone. Stores nothing, but waits for a change that is being stored.
  void Fail(const wire::ClientId& client_id, const ObjectKey& file, const std::string& owner)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);
  // A client has taken its name. Breaks the locks of its earlier instances. Blocks on the disk if
  // there are some; they count as broken even if that cannot be stored, which is logged.
  void Arrived(std::string_view client_name, const wire::Verifier& verifier)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);
  // The grace period has ended for the files for which `ended` returns true: what was changed under
  // their AUTORECOVERY locks is to be undone, unless the lock was reclaimed or is PERSIST too.
  void EndClaims(absl::FunctionRef<bool(const ObjectKey& file)> ended)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);

  // AUTORECOVERY locks of one owner. The ranges are those of the lock space.
  struct Recovering {
    LockHolder holder;
    wire::LockRanges ranges;
  };
  // Calls `visit` for each owner of such locks on the file, with a reference that is valid until it
  // returns. `is_own`: of the client of `caller`. It must not call this class.
  void VisitRecovering(
      const Caller& caller, const ObjectKey& file,
      absl::FunctionRef<void(const LockHolder& holder, bool is_own, const wire::LockRanges& ranges)>
          visit) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Those of an owner; nullopt if it has none. Its locks must not change meanwhile.
  std::optional<Recovering> RecoveringOf(const wire::ClientId& client_id, const ObjectKey& file,
                                         const std::string& owner) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // ABORT: what the owner has changed under AUTORECOVERY locks in `range` is to be undone, and the
  // locks stay.
  void Abort(const wire::ClientId& client_id, const ObjectKey& file, const std::string& owner,
             const wire::LockRange& range) ABSL_LOCKS_EXCLUDED(changing_, mutex_);
  // Whether changes in `range` are being undone.
  bool IsUndoing(const ObjectKey& file, const wire::LockRange& range) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Changes to undo, for the thread that does so. `kept`: what the owner holds besides.
  struct Undoing {
    LockHolder holder;
    wire::LockRanges undone;
    wire::LockRanges kept;
  };
  std::vector<ObjectKey> UndoingFiles() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Stores that changes of the file are being undone, so that an owner can no longer reclaim these
  // locks after a restart. Returns them.
  wire::DafsStatus BeginUndo(const ObjectKey& file, std::vector<Undoing>* all)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);
  // The changes are undone and on the disk. `extra` becomes part of the transaction.
  wire::DafsStatus Undone(const ObjectKey& file, const Undoing& undoing, Extra extra)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);

  // For the administrator: forgets the broken locks of a file that no client repairs. Returns how
  // many.
  wire::DafsStatus Forget(const ObjectKey& file, size_t* count)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);

  // The file is gone: so are its records. Blocks on the disk.
  void Drop(const ObjectKey& file) ABSL_LOCKS_EXCLUDED(changing_, mutex_);
  // The files with records.
  std::vector<ObjectKey> Files() const ABSL_LOCKS_EXCLUDED(mutex_);

  enum class State : uint8_t { kHeld, kBreakable, kBroken, kInRepair, kUndoing };
  struct Entry {
    ObjectKey file;
    State state = State::kHeld;
    uint8_t kind = kPersists;
    std::string client_name;
    std::string owner;
    wire::LockRange range;
  };
  std::vector<Entry> List() const ABSL_LOCKS_EXCLUDED(mutex_);

  // A client with this many broken locks gets no other persistent lock: RESOURCE. Otherwise one
  // that returns as a new instance again and again would fill the disk.
  static constexpr size_t kMostBroken = 256;

 private:
  // So many that files without a record seldom share a mark with one that has some.
  static constexpr size_t kMarks = 4096;

  // The column `broken` of the table plock.
  enum Row : uint8_t { kHeldRow = 0, kBrokenRow = 1, kUndoingRow = 2 };

  using Holder = LockHolder;
  struct Held {
    Holder holder;
    wire::ClientId client_id;  // zero: breakable
    wire::LockRanges ranges;
    uint8_t kind = kPersists;
  };
  struct Broken {
    Holder holder;
    wire::LockRange range;
    std::optional<LockOwner> repairer;
  };
  struct Undo {
    Holder holder;
    wire::LockRange range;
    bool by_abort = false;
  };
  struct File {
    std::vector<Held> held;  // also of locks whose changes are being undone
    std::vector<Broken> broken;
    std::vector<Undo> undoing;
    bool empty() const { return held.empty() && broken.empty() && undoing.empty(); }
  };

  size_t BrokenOf(std::string_view client_name) const ABSL_LOCKS_EXCLUDED(mutex_);
  static Holder HolderOf(const Caller& caller, const std::string& owner);
  static bool IsOf(const Caller& caller, const Held& held);
  static bool IsUndoing(const File& file, const wire::LockRange& range);
  // Adds the changes under a lock that ends without LOCKU.
  static void AddUndo(File& file, const Holder& holder, const wire::LockRange& range);
  void Wake() const {
    if (wake_ != nullptr) wake_();
  }
  // Breaks the locks for which `which` returns true. If they recover, their changes are to be
  // undone; if they do not persist, that is all.
  static void Break(File& file, absl::FunctionRef<bool(const Held&, const wire::LockRange&)> which);
  static size_t MarkOf(const ObjectKey& key) { return absl::Hash<ObjectKey>{}(key) % kMarks; }
  File FileOf(const ObjectKey& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Write(const ObjectKey& key, const File& file, Extra extra);
  // Stores `file` and `extra`, then puts it in force.
  wire::DafsStatus Replace(const ObjectKey& key, File file, Extra extra = Nothing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_) ABSL_LOCKS_EXCLUDED(mutex_);
  static absl::Status Nothing(sqlite3*) { return absl::OkStatus(); }
  void Put(const ObjectKey& key, File file) ABSL_LOCKS_EXCLUDED(mutex_);

  Database& database_;
  std::function<void()> wake_;
  absl::Mutex changing_;  // one change at a time; held while it is stored. Before mutex_
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<ObjectKey, File> files_ ABSL_GUARDED_BY(mutex_);  // none is empty
  // Whether files_ has any, and how many files it has for each mark. They publish nothing. I/O that
  // sees an old value is awaited by the LOCK: it has taken the file's AppendLock or is a
  // ReadUnderWay (server/store/access) before it looks, which needs sequential consistency.
  std::atomic<bool> any_{false};
  std::array<std::atomic<uint32_t>, kMarks> marks_{};
};

}  // namespace dafs::server
