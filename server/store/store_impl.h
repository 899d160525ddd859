// The parts of the store that its procedures share, and the steps that begin most procedures. Only
// for the store. Thread-safe as the Store is.
#pragma once

#include <array>
#include <atomic>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "runtime/unique_fd.h"
#include "server/store/announced_change.h"
#include "server/store/durable/database.h"
#include "server/store/durable/journal.h"
#include "server/store/durable/write_verifier.h"
#include "server/store/fencing/fencing.h"
#include "server/store/holdings/delegations.h"
#include "server/store/holdings/grace.h"
#include "server/store/holdings/kernel_leases.h"
#include "server/store/holdings/lock_table.h"
#include "server/store/holdings/open_table.h"
#include "server/store/holdings/promises.h"
#include "server/store/named_attributes.h"
#include "server/store/objects/descriptor_cache.h"
#include "server/store/objects/export_set.h"
#include "server/store/objects/handle.h"
#include "server/store/objects/mounts.h"
#include "server/store/objects/orphans.h"
#include "server/store/objects/pseudo_fs.h"
#include "server/store/objects/recent_stats.h"
#include "server/store/openings.h"
#include "server/store/store.h"
#include "server/store/system/identity.h"
#include "wire/protocol/attributes.h"

namespace dafs::server {

// Returns from the enclosing function with any status except OK.
#define STORE_RETURN_IF_NOT_OK(...)                             \
  do {                                                          \
    if (::dafs::wire::DafsStatus store_status_ = (__VA_ARGS__); \
        store_status_ != ::dafs::wire::DafsStatus::kOk)         \
      return store_status_;                                     \
  } while (false)

class AnswerPromises;

// Whether a GETATTR that follows in the chain can use what this caller's request finds.
inline bool KeepsStats(const Caller* caller) {
  return caller != nullptr && caller->recent != nullptr;
}

// The object that a filehandle names: a directory of the pseudo file system, or an object of an
// export.
struct Place {
  const PseudoNode* pseudo = nullptr;
  ObjectRef object;

  const wire::FileHandle& handle() const {
    return pseudo != nullptr ? pseudo->handle : object->handle();
  }
};

// Updates the lock count of a client: make it before an owner's locks on a file change, destroy it
// after. The caller holds the file's lock.
class LockCount {
 public:
  LockCount(LockTable& table, const ObjectKey& file, const LockOwner& owner, Holdings* holdings)
      : table_(table),
        file_(file),
        owner_(owner),
        holdings_(holdings),
        before_(holdings != nullptr ? table.Held(file, owner).size() : 0) {}
  ~LockCount() {
    if (holdings_ == nullptr) return;
    holdings_->locks += static_cast<uint32_t>(table_.Held(file_, owner_).size() - before_);
  }
  LockCount(const LockCount&) = delete;
  LockCount& operator=(const LockCount&) = delete;

 private:
  LockTable& table_;
  const ObjectKey& file_;
  const LockOwner& owner_;
  Holdings* const holdings_;
  const size_t before_;
};

// The CHANGE attribute of a directory before and after a modification.
class ChangeProbe {
 public:
  // `recent`, if not null, receives the directory's attributes in Modified.
  explicit ChangeProbe(Object& directory, RecentStats* recent = nullptr);
  // Call after a modification that succeeded.
  wire::ChangeInfo Modified();
  uint64_t before() const { return info_.before; }
  // For a request that modified nothing: before and after are the same.
  wire::ChangeInfo Unmodified() const { return {info_.before, info_.before, true}; }

 private:
  Object& directory_;
  RecentStats* const recent_;
  wire::ChangeInfo info_;
};

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

class StoreImpl;

// Calls TellWaiters at the end of a scope. Declared before the file's lock is taken, so that
// nothing is sent while it is held.
class WaitersTold {
 public:
  explicit WaitersTold(StoreImpl& store) : store_(store) {}
  ~WaitersTold();
  WaitersTold(const WaitersTold&) = delete;
  WaitersTold& operator=(const WaitersTold&) = delete;

 private:
  StoreImpl& store_;
};

class StoreImpl {
 public:
  StoreImpl(StoreOptions options, const HandleKey& key, uint32_t instance,
            std::unique_ptr<WriteVerifier> verifier);

  // Opens the directory to which the path of an export leads now, and serves it. Blocks on its file
  // system. One thread at a time for each export. Needs the server's own identity.
  absl::Status OpenExport(size_t export_index);

  // OpenExport, at the start.
  absl::Status OpenFirst(size_t export_index);

  // Opens an export, and settles its journals unless they are. One thread at a time for each
  // export.
  absl::Status OpenAndSettle(size_t export_index);
  // Called once for each export of the start, after it was opened. Set before the first is opened.
  std::function<void(size_t export_index)> settle;

  // See Store::ReloadExports.
  absl::StatusOr<ExportChanges> ReloadExports(std::vector<Export> wanted, absl::Duration within)
      ABSL_LOCKS_EXCLUDED(reloading_);
  // If the export is removed, releases the descriptors of its file systems, so that these can be
  // unmounted. Blocks on them.
  void ReleaseIfRemoved(size_t export_index);

  // Removes the orphans in the exports `ended` that no client has reclaimed, now and on file
  // systems that are found later. For exports that may hang, run_for_export does so, perhaps later.
  void SweepOrphans(const std::vector<size_t>& ended);

  // The object or pseudo directory that `handle` names, if the export admits `caller`, and no fence
  // keeps it off. BADHANDLE, STALE, ACCES, WRONGSEC.
  wire::DafsStatus Resolve(const Caller& caller, const wire::FileHandle& handle, Place* place);
  // The same for what a fence does not forbid.
  wire::DafsStatus ResolveUnfenced(const Caller& caller, const wire::FileHandle& handle,
                                   Place* place);

  // ACCES if a fencing list of the object or its file system does not admit the caller's session.
  wire::DafsStatus CheckFence(const Caller& caller, const ObjectKey& key) const {
    if (fencing.Admits(caller.fence, key)) return wire::DafsStatus::kOk;
    if (caller.fenced_off != nullptr) *caller.fenced_off = true;
    return wire::DafsStatus::kAcces;
  }

  // The same without a caller, for work that the server does on its own.
  wire::DafsStatus ResolveHandle(const wire::FileHandle& handle, Place* place);

  // Whether an export at or below `node` admits the caller. WRONGSEC: none does, but one would from
  // a reserved port. ACCES: none.
  wire::DafsStatus AdmissionBelow(const Caller& caller, const PseudoNode& node) const;

  // Resolve, for procedures that do not accept a pseudo directory: they fail with `pseudo` for one.
  wire::DafsStatus ResolveObject(const Caller& caller, const wire::FileHandle& handle,
                                 wire::DafsStatus pseudo, ObjectRef* object);

  // ResolveObject, for a directory that is to be modified. Also NOTDIR, and ROFS for a pseudo
  // directory or a read-only export.
  wire::DafsStatus ResolveTargetDir(const Caller& caller, const wire::FileHandle& handle,
                                    ObjectRef* directory);

  // Makes the thread act as `caller` in this export, squashed as the export says. SERVERFAULT if
  // that fails.
  wire::DafsStatus Enter(const Caller& caller, const Export& exported);

  // Looks up `name` in `directory`, as the identity entered. Crosses into mounted file systems. If
  // it calls statx, it keeps the result for `keeper` (KeepsStats), and promises the attributes.
  wire::DafsStatus LookupName(Object& directory, const std::string& name, ObjectRef* child,
                              const Caller* keeper = nullptr);

  // The same while no NameGuard is held: never finds an object that is being removed.
  wire::DafsStatus LookupLiving(Object& directory, const std::string& name, ObjectRef* child,
                                const Caller* keeper = nullptr);

  // One attempt of LookupLiving.
  wire::DafsStatus LookupOnce(Object& directory, const std::string& name, ObjectRef* child,
                              const Caller* keeper, bool* alive);

  // One step of a path. Enters the identity of `caller` itself. `promises`, if not null, gets those
  // of the names that the step depends on.
  wire::DafsStatus LookupStep(const Caller& caller, const Place& directory, const std::string& name,
                              Place* child, AnswerPromises* promises = nullptr);

  // Makes an export lead to the directory that its path leads to now. Logs a change, and why the
  // new directory cannot be served. OK: the export has a directory. DELAY: try again. NOENT, ACCES:
  // the path leads to nothing, or to what cannot be served. Blocks on the file system, except on
  // one that may hang unless the export is known to.
  wire::DafsStatus FollowPath(size_t export_index);
  // The same for all exports; for those that may hang, run_for_export does so. Does nothing while
  // another thread does it.
  void FollowPaths();

  // Follows `path` from *place. *place becomes the last object reached, *count the number of steps.
  wire::DafsStatus Walk(const Caller& caller, std::span<const std::string> path, Place* place,
                        uint32_t* count, AnswerPromises* promises = nullptr);

  // The object of a descriptor that was just opened with O_PATH. If the object was not cached, it
  // keeps the descriptor. `near`: the file system of the directory in which it was opened.
  // AdoptNewFile is for a regular file that was just created: it calls no statx.
  wire::DafsStatus Adopt(const FileSystem& near, UniqueFd path, ObjectRef* object,
                         const Caller* keeper = nullptr);
  wire::DafsStatus AdoptNewFile(const FileSystem& near, UniqueFd path, ObjectRef* object);
  // Adds an object to the cache. If another thread was faster, returns the object of that thread.
  // The cache does not keep an object whose file system is retired.
  ObjectRef CacheObject(ObjectRef object);
  // The same for a new object, with its descriptor `path`.
  ObjectRef KeepObject(const FileSystem& fs, const wire::FileHandle& handle, UniqueFd path,
                       mode_t type);

  // Checks one part of the cached objects. Forgets those that local programs have removed and no
  // client has open, because a descriptor keeps their space. One thread at a time; others return at
  // once.
  void ForgetRemoved();
  // Recalls the delegations of files that local programs have removed.
  void RecallRemoved();

  // STALE for an object that has no name and that no client has open. Such an object exists only
  // because the cache holds a descriptor, so it is forgotten. `nlink` comes from a statx that was
  // just made.
  wire::DafsStatus CheckAlive(Object& object, uint32_t nlink);

  // The attributes of an object. STALE if CheckAlive fails.
  wire::DafsStatus GetAttributes(Object& object, uint64_t bitmap, wire::FileAttributes* attributes);
  // The same from `stx`, which was read after `sample` was taken (ChangeCounter::Sample).
  wire::DafsStatus TellAttributes(Object& object, uint64_t sample, const struct statx& stx,
                                  uint64_t bitmap, wire::FileAttributes* attributes);
  void GetPseudoAttributes(const PseudoNode& node, uint64_t bitmap,
                           wire::FileAttributes* attributes);

  // Promises `what` of an object to `caller` before it is read. Returns whether that is promised.
  bool GivePromise(const Caller& caller, const ObjectKey& key, uint8_t what);

  // Announces changes to the clients that were promised a notice. DELAY if there are some: the
  // procedure returns it, with nothing changed or journalled, and the session calls these clients
  // and then the procedure again. Call with the identity entered and the names guarded.
  // The kernel would refuse some changes. `refusal` finds out which at some cost, and is called
  // only if clients would have to be called: any status but OK is returned.
  wire::DafsStatus Announce(const Caller& caller, std::initializer_list<AnnouncedChange> changes,
                            absl::FunctionRef<wire::DafsStatus()> refusal);
  wire::DafsStatus Announce(const Caller& caller, std::initializer_list<AnnouncedChange> changes) {
    return Announce(caller, changes, [] { return wire::DafsStatus::kOk; });
  }
  // Begins to recall the delegations of other clients that conflict with this use of the file.
  // DELAY if there are some: the session waits for their end, and calls the procedure again.
  // Announce does the same for the changes of attributes. No system call.
  wire::DafsStatus AwaitDelegations(const Caller& caller, const ObjectKey& key,
                                    Delegations::Use use) {
    return delegations.IsFree(key, caller.client_id, use, caller.awaited)
               ? wire::DafsStatus::kOk
               : wire::DafsStatus::kDelay;
  }
  // Ends the lease of a file that the server is about to open for writing or to truncate, which
  // would wait for the lease. Begins to recall the delegations that the lease protected: those of
  // the caller, because Announce and AwaitDelegations have left no other. Call after these.
  void EndLease(const ObjectKey& key);
  // Begins to recall all delegations of a file.
  void RecallAll(const ObjectKey& key);
  // The request has made an object, and changed its attributes after others could see it. A client
  // that has read them is called before the response is sent.
  void AnnounceNew(const Caller& caller, const ObjectKey& key);

  void ReleaseLocks(const wire::ClientId& client_id, const ObjectKey& key, const Closed& closed);
  // Closes an open or a delegation, and releases the locks of an open. The last close also removes
  // the file's orphan link, unless another open of the file may still be reclaimed.
  wire::DafsStatus CloseOpen(const wire::ClientId& client_id, const wire::StateId& state_id,
                             const ObjectKey& key);
  // The same for a delegation, if the caller holds the file's lock.
  wire::DafsStatus CloseLocked(const wire::ClientId& client_id, const wire::StateId& state_id,
                               const ObjectKey& key);

  // Checks I/O that the open of `state_id` (zero: none) does not allow: DENIED if a share
  // reservation of another open forbids it and that client's lease has not expired.
  wire::DafsStatus CheckDenied(const ObjectKey& key, uint32_t access,
                               const wire::StateId& state_id);
  // Releases all opens and locks of clients that have `key` open and whose lease has expired.
  // Returns whether there was such a client. The caller holds no lock of a file.
  bool RevokeExpired(const ObjectKey& key);
  // Closes every open of a client. run_for_export closes those in exports that may hang, except
  // `here`, perhaps later.
  void ReleaseClient(const wire::ClientId& client_id, std::optional<size_t> here = std::nullopt);
  void ReleaseInExport(const wire::ClientId& client_id, size_t export_index);

  // Sends BC_LOCK_FREE for locks that can be granted now. Call after changes of `locks`, without
  // a lock of a file. Cheap if no such change concerned a waiter.
  void TellWaiters();

  // Whether `handle` was made by this server. Cheap for handles in use.
  bool IsGenuine(const wire::FileHandle& handle);

  // Whether `name` in `directory` is reserved for the server: the name of the orphan directory, at
  // the root of a file system. Elsewhere that name is an ordinary one.
  bool IsReserved(const Object& directory, std::string_view name) const;
  // ACCES for such a name.
  wire::DafsStatus CheckNotReserved(const Object& directory, std::string_view name) const;

  // Serialises opens, closes, locks and removals of a file; see server/store/procedures/removal.h.
  absl::Mutex& FileLock(const ObjectKey& key) {
    auto& locks = LocksOf(key).files;
    return locks[absl::Hash<ObjectKey>{}(key) % locks.size()];
  }
  NameGuard GuardName(Object& directory, const std::string& name) {
    return NameGuard(LocksOf(directory.key()).names, directory.key(), name);
  }
  NameGuard GuardNames(Object& directory, const std::string& name, Object& other,
                       const std::string& other_name) {
    return NameGuard(LocksOf(directory.key()).names, directory.key(), name, other.key(),
                     other_name);
  }

  // Writers of a file hold it shared. Other changes of the size hold it exclusively, except an
  // ALLOCATE that moves no bytes (ranges.cc). An append is one of them, because it uses the
  // position of the file's descriptors, which only a holder may move.
  absl::Mutex& AppendLock(const ObjectKey& key) {
    auto& locks = LocksOf(key).appends;
    return locks[absl::Hash<ObjectKey>{}(key) % locks.size()];
  }

  // Whether another open may pin descriptors: as long as room is left for locks.
  bool MayPin() {
    return cache.descriptors().load(std::memory_order_relaxed) < max_descriptors / 2;
  }

  // Whether another owner may have locks. Each owner takes one or two descriptors; idle files
  // release theirs to make room.
  bool MayLock() {
    return lock_descriptors.load(std::memory_order_relaxed) < max_descriptors / 3 * 2;
  }

  const StoreOptions options;  // its exports are those of the start: see `exports`
  const size_t max_descriptors;
  const HandleMac mac;
  ExportSet exports;
  // The directories above the exports. The result stays valid until the end.
  const PseudoFs& pseudo() const { return *pseudo_.load(std::memory_order_acquire); }
  const uint32_t instance;
  std::atomic<size_t> lock_descriptors{0};  // a count; publishes no other data
  DescriptorCache cache;
  Promises promises;
  OpenTable opens;
  Delegations delegations;
  KernelLeases leases;
  LockTable locks;
  // The orphans of a file system. One that may hang has its own, because a lock is held while it is
  // accessed.
  Orphans& OrphansOf(const FileSystem& fs);
  Grace grace;
  // For reclaims, one open at a time. Lock order: before the file's lock.
  absl::Mutex& ReclaimLock(const ObjectKey& key) { return LocksOf(key).reclaiming; }
  Store::RunForExport run_for_export;  // null: runs the work at once
  Store::EndPromises end_promises;     // null: no client takes part
  Store::SendLockFree send_lock_free;  // null: no client can be notified
  NamedAttributes attributes;
  Database database;
  Fencing fencing;
  const std::unique_ptr<Mounts> mounts;
  const std::unique_ptr<WriteVerifier> write_verifier;

 private:
  // The key of the object that `path` refers to, and the object if it is cached.
  wire::DafsStatus Identify(const FileSystem& near, const UniqueFd& path, const FileSystem** fs,
                            ObjectKey* key, ObjectRef* object);
  wire::DafsStatus OpenByHandle(const wire::FileHandle& handle, ObjectRef* object);
  // DELAY for a handle that leads into an export that is still being opened, or may do so.
  wire::DafsStatus CheckOpened(const wire::FileHandle& handle) const;
  wire::DafsStatus Reopen(size_t export_index);
  // Logs once that the path of an export leads nowhere, or no longer does.
  void NoteLeads(size_t export_index, bool nowhere);
  // The steps of ReloadExports (export_reload.cc).
  absl::StatusOr<std::vector<size_t>> PlanExports(const std::vector<Export>& wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reloading_);
  absl::Status OpenAdded(const std::vector<size_t>& indices, absl::Duration within)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reloading_);
  ExportChanges ReplaceExports(std::vector<Export> wanted, const std::vector<size_t>& indices,
                               std::vector<size_t>* removed, std::vector<size_t>* changed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reloading_);
  void RenewPseudo();
  void StartLeasesIfNeeded() ABSL_LOCKS_EXCLUDED(reloading_);
  // Ends what clients hold in an export that was removed, and releases its file systems. For one
  // that may hang, run_for_export does so, perhaps later.
  void RevokeInExport(size_t export_index);
  void RecallInExport(size_t export_index);
  std::vector<OpenTable::Holding> HeldIn(size_t export_index) const;
  void ReleaseFileSystems(const std::vector<const FileSystem*>& retired);
  // Runs `work` on an export: run_for_export does so if the export may hang.
  void RunFor(size_t export_index, absl::AnyInvocable<void()> work);
  void TakeUpOrphans(const FileSystem& fs);
  bool KeepsOrphans(const FileSystem& fs) const {
    return keep_orphans_[fs.export_index].load(std::memory_order_relaxed);
  }
  void SweepEnded(Orphans& orphans) {
    orphans.Sweep([this](const FileSystem& fs) { return !KeepsOrphans(fs); });
  }
  void SweepExport(size_t export_index) ABSL_LOCKS_EXCLUDED(hanging_mutex_);

  OrphanRecord orphan_record_;
  Orphans orphans_;  // of all file systems that cannot hang
  struct Hanging {
    absl::flat_hash_set<size_t> exports;  // that contain it
    Orphans orphans;
  };
  absl::Mutex hanging_mutex_;
  // By st_dev of file systems that may hang.
  absl::flat_hash_map<uint64_t, std::unique_ptr<Hanging>> hanging_ ABSL_GUARDED_BY(hanging_mutex_);

  absl::Mutex releasing_mutex_;
  // Releases that run_for_export was given and has not ended, so that retries do not queue more.
  absl::flat_hash_set<std::pair<wire::ClientId, size_t>> releasing_
      ABSL_GUARDED_BY(releasing_mutex_);
  // By export: clients may still reclaim opens of its orphans. They publish no other data.
  std::vector<std::atomic<bool>> keep_orphans_;
  // By export of the start: `settle` was called. Used by the thread that opens the export.
  std::vector<uint8_t> is_settled_;
  // The state of FollowPath for an export.
  struct PathState {
    absl::Mutex opening;                           // held while the file system is accessed
    std::string refusal ABSL_GUARDED_BY(opening);  // logged last; empty: none
    std::atomic<bool> nowhere{false};              // logged; publishes no other data
    std::atomic<bool> following{false};            // run_for_export has not ended it yet
  };
  std::vector<PathState> paths_;        // by export
  std::atomic<bool> following_{false};  // FollowPaths has not returned yet
  absl::Mutex forgetting_;
  size_t next_part_ ABSL_GUARDED_BY(forgetting_) = 0;
  // Held during file system calls, which may hang, so each export has its own.
  struct Locks {
    std::array<absl::Mutex, 64> files;
    std::array<absl::Mutex, 64> appends;
    NameGuard::Mutexes names;
    absl::Mutex reclaiming;
  };
  Locks& LocksOf(const ObjectKey& key) {
    if (exports.size() == 1) return *locks_[0];
    return *locks_[mounts->ExportOf(key.fshandle()).value_or(0)];
  }
  // By export. That of a new one is made before the index can be found.
  std::vector<std::unique_ptr<Locks>> locks_;
  absl::Mutex reloading_;
  bool uses_leases_ ABSL_GUARDED_BY(reloading_) = false;
  std::vector<std::unique_ptr<const PseudoFs>> all_pseudo_;  // changes while a reload runs
  std::atomic<const PseudoFs*> pseudo_{nullptr};             // publishes the newest of them

 public:
  Openings openings;  // its threads use all of the above
};

inline WaitersTold::~WaitersTold() {
  if (store_.locks.has_turns()) store_.TellWaiters();
}

// The CHANGE attribute of an object now; 0 if it cannot be read.
uint64_t ChangeOf(Object& object);

// Checks a name that is to be created, removed or renamed: INVAL for ".", "..", and names that no
// file system can store (R63). The caller then calls StoreImpl::CheckNotReserved once it knows the
// directory.
wire::DafsStatus CheckName(const std::string& name);

}  // namespace dafs::server
