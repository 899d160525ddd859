// The PERSIST locks: what stays of a lock when its holder fails in the middle of its work.
// Spec: 4.4.1.3, 4.4.1.5, 4.4.1.6, 6.5.18; WIRE R11.
//
// While its owner holds it, a PERSIST lock is a lock of the LockTable like any other. Its record in
// this class outlives the owner, the client and the server. The states of a record:
//
//   held       the owner holds the lock
//   breakable  the owner has failed. It may lock again, as if nothing had happened
//   broken     another owner requested the range meanwhile, or the client is a new instance. No
//              LOCK is granted but one with REPAIR
//   in repair  an owner holds the range by a LOCK with REPAIR. Its LOCKU ends the record; if it
//              fails, the record is broken again
//
// The database has held and breakable as one, and so broken and in repair: after a restart
// no owner holds anything yet.
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
#include "server/store/holdings/lock_table.h"
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

  // Whether there may be a record of the file. False is certain; then the other functions need not
  // be called. One load while there is no record at all, otherwise two.
  bool MayConcern(const ObjectKey& file) const {
    return any_.load(std::memory_order_relaxed) &&
           marks_[MarkOf(file)].load(std::memory_order_relaxed) != 0;
  }

  // The bytes that a request reads or writes. There may be none.
  struct Io {
    uint64_t offset = 0;
    uint64_t length = 0;
    bool write = false;
  };
  // Whether `caller` may do it. LOCKED: another client has locked a part of it, or `has_state` is
  // false and a lock there is broken. STALE_STATEID: it is broken.
  wire::DafsStatus CheckIo(const Caller& caller, bool has_state, const ObjectKey& file,
                           const Io& io) const ABSL_LOCKS_EXCLUDED(mutex_);

  // A LOCK, before that of the LockTable: OK, or LOCK_BROKEN with the broken lock in *conflict. A
  // breakable lock that conflicts breaks. With `repair`: INVAL if nothing is broken; LOCK_RANGE if
  // a broken lock extends beyond `range`.
  wire::DafsStatus Admit(const Caller& caller, const ObjectKey& file, const std::string& owner,
                         const wire::LockRange& range, bool repair, LockTable::Conflict* conflict)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);
  // The LockTable has granted the LOCK. Records it if it has the option PERSIST, or if the owner
  // has a record that overlaps: a persistent lock stays one until LOCKU.
  wire::DafsStatus Granted(const Caller& caller, const ObjectKey& file, const std::string& owner,
                           const wire::LockRange& range, bool persist, bool repair)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);
  // For LOCKT, which breaks nothing. OK; LOCK_BROKEN; DENIED: a breakable lock conflicts.
  wire::DafsStatus Test(const Caller& caller, const ObjectKey& file, const std::string& owner,
                        const wire::LockRange& range, LockTable::Conflict* conflict) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the owner has a record that is not broken and covers `range`, so that it may reclaim
  // the lock at any time.
  bool MayReclaim(const Caller& caller, const ObjectKey& file, const std::string& owner,
                  const wire::LockRange& range) const ABSL_LOCKS_EXCLUDED(mutex_);

  // LOCKU or CLOSE of the client: what the owner holds between `first` and `last`, by PERSIST or by
  // REPAIR, has no record any more.
  wire::DafsStatus Release(const wire::ClientId& client_id, const ObjectKey& file,
                           const std::string& owner, uint64_t first, uint64_t last)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);
  // The owner's locks end in another way: they are breakable now, or broken again. Stores nothing,
  // but waits for a change that is being stored.
  void Fail(const wire::ClientId& client_id, const ObjectKey& file, const std::string& owner)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);
  // A client has taken its name. Breaks the locks of its earlier instances. Blocks on the disk if
  // there are some; they count as broken even if that cannot be stored, which is logged.
  void Arrived(std::string_view client_name, const wire::Verifier& verifier)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);
  // For the administrator: forgets the broken locks of a file that no client repairs. Returns how
  // many.
  wire::DafsStatus Forget(const ObjectKey& file, size_t* count)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);

  // The file is gone: so are its records. Blocks on the disk.
  void Drop(const ObjectKey& file) ABSL_LOCKS_EXCLUDED(changing_, mutex_);
  // The files with records.
  std::vector<ObjectKey> Files() const ABSL_LOCKS_EXCLUDED(mutex_);

  enum class State : uint8_t { kHeld, kBreakable, kBroken, kInRepair };
  struct Entry {
    ObjectKey file;
    State state = State::kHeld;
    std::string client_name;
    std::string owner;
    wire::LockRange range;
  };
  std::vector<Entry> List() const ABSL_LOCKS_EXCLUDED(mutex_);

  // A client with so many broken locks gets no other persistent lock: RESOURCE. Otherwise one that
  // returns as a new instance again and again would fill the disk.
  static constexpr size_t kMostBroken = 256;

 private:
  // So many that files without a record seldom share a mark with one that has some.
  static constexpr size_t kMarks = 4096;

  // The owner of a lock: the same over restarts of the server, and another one for each instance of
  // a client.
  struct Holder {
    std::string client_name;
    wire::Verifier verifier;
    std::string owner;
    friend bool operator==(const Holder&, const Holder&) = default;
  };
  struct Held {
    Holder holder;
    wire::ClientId client_id;  // zero: breakable
    wire::LockRanges ranges;
  };
  struct Broken {
    Holder holder;
    wire::LockRange range;
    std::optional<LockOwner> repairer;
  };
  struct File {
    std::vector<Held> held;
    std::vector<Broken> broken;
    bool empty() const { return held.empty() && broken.empty(); }
  };

  size_t BrokenOf(std::string_view client_name) const ABSL_LOCKS_EXCLUDED(mutex_);
  static Holder HolderOf(const Caller& caller, const std::string& owner);
  static void Break(File& file, absl::FunctionRef<bool(const Held&, const wire::LockRange&)> which);
  static size_t MarkOf(const ObjectKey& key) { return absl::Hash<ObjectKey>{}(key) % kMarks; }
  File FileOf(const ObjectKey& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Write(const ObjectKey& key, const File& file);
  // Stores `file`, then puts it in force.
  wire::DafsStatus Replace(const ObjectKey& key, File file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Put(const ObjectKey& key, File file) ABSL_LOCKS_EXCLUDED(mutex_);

  Database& database_;
  absl::Mutex changing_;  // one change at a time; held while it is stored. Before mutex_
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<ObjectKey, File> files_ ABSL_GUARDED_BY(mutex_);  // none is empty
  // Whether files_ has any, and how many files it has for each mark. They publish nothing. A writer
  // that sees an old value is awaited by the LOCK, because it holds the file's AppendLock when it
  // looks.
  std::atomic<bool> any_{false};
  std::array<std::atomic<uint32_t>, kMarks> marks_{};
};

}  // namespace dafs::server
