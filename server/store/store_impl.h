// What the procedures of the store share: its parts, and the steps that most of them begin with.
// Only for the store. Thread-safe as the Store.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "server/store/durable/journal.h"
#include "server/store/durable/write_verifier.h"
#include "server/store/holdings/grace.h"
#include "server/store/holdings/lock_table.h"
#include "server/store/holdings/open_state.h"
#include "server/store/named_attributes.h"
#include "server/store/objects/descriptor_cache.h"
#include "server/store/objects/handle.h"
#include "server/store/objects/mounts.h"
#include "server/store/objects/orphans.h"
#include "server/store/objects/pseudo_fs.h"
#include "server/store/objects/recent_stats.h"
#include "server/store/store.h"
#include "server/store/system/identity.h"
#include "wire/protocol/attributes.h"

namespace dafs::server {

// Ends the enclosing procedure with any status but OK.
#define STORE_RETURN_IF_NOT_OK(...)                             \
  do {                                                          \
    if (::dafs::wire::DafsStatus store_status_ = (__VA_ARGS__); \
        store_status_ != ::dafs::wire::DafsStatus::kOk)         \
      return store_status_;                                     \
  } while (false)

// What a filehandle names: a directory of the pseudo file system, or an object of an export.
struct Place {
  const PseudoNode* pseudo = nullptr;
  ObjectRef object;

  const wire::FileHandle& handle() const {
    return pseudo != nullptr ? pseudo->handle : object->handle();
  }
};

// While it lives an owner's locks on a file change; then its client's record says how many it
// holds. The file's lock is held.
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
  // Afterwards `recent`, if there is one, has the directory's attributes.
  explicit ChangeProbe(Object& directory, RecentStats* recent = nullptr);
  // To be called after a modification that succeeded.
  wire::ChangeInfo Modified();
  uint64_t before() const { return info_.before; }
  // Where nothing was modified: before and after are one.
  wire::ChangeInfo Unmodified() const { return {info_.before, info_.before, true}; }

 private:
  Object& directory_;
  RecentStats* const recent_;
  wire::ChangeInfo info_;
};

// Keeps one name or two from being created, removed or renamed by anybody else, from before the
// journal says what will become of them until it says that it has.
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
  absl::Mutex* second_ = nullptr;  // of two names; none if they share one
};

class StoreImpl {
 public:
  StoreImpl(StoreOptions options, const HandleKey& key, uint32_t instance);

  absl::Status OpenExports();

  // Removes what nobody has reclaimed, now and on file systems that are found later. In exports
  // that may hang run_for_export does that, perhaps later.
  void SweepOrphans();

  // The object or pseudo directory that `handle` names, if `caller` may come there at all.
  // BADHANDLE, STALE, ACCES.
  wire::DafsStatus Resolve(const Caller& caller, const wire::FileHandle& handle, Place* place);

  // The same without a caller: for what the server does on its own.
  wire::DafsStatus ResolveHandle(const wire::FileHandle& handle, Place* place);

  // Whether an export at or below `node` admits the caller. WRONGSEC: none, but one would if it
  // came from a reserved port. ACCES: none.
  wire::DafsStatus AdmissionBelow(const Caller& caller, const PseudoNode& node) const;

  // The same where nothing of the pseudo file system will do: `pseudo` is answered for that.
  wire::DafsStatus ResolveObject(const Caller& caller, const wire::FileHandle& handle,
                                 wire::DafsStatus pseudo, ObjectRef* object);

  // An object that is a directory in which something is to be changed: NOTDIR, ROFS besides.
  wire::DafsStatus ResolveTargetDir(const Caller& caller, const wire::FileHandle& handle,
                                    ObjectRef* directory);

  // Makes the thread act as `caller` in this export, squashed as it says. SERVERFAULT if it fails.
  wire::DafsStatus Enter(const Caller& caller, const Export& exported);

  // `name` in `directory`, as the identity entered. Crosses into mounted file systems. What statx
  // said, if it had to be asked, is left in `recent`.
  wire::DafsStatus LookupName(Object& directory, const std::string& name, ObjectRef* child,
                              RecentStats* recent = nullptr);

  // The same where no NameGuard is held: never finds what is just being removed. What statx said
  // is left in `recent`.
  wire::DafsStatus LookupLiving(Object& directory, const std::string& name, ObjectRef* child,
                                RecentStats* recent = nullptr);

  // One step of a path, from any place to any place. Enters the identity of `caller` by itself.
  wire::DafsStatus LookupStep(const Caller& caller, const Place& directory, const std::string& name,
                              Place* child);

  // Logs if the path of an export leads elsewhere by now.
  void CheckPath(size_t export_index);

  // Steps through `path` from `place`, which ends as the last one reached; *count tells how many.
  wire::DafsStatus Walk(const Caller& caller, std::span<const std::string> path, Place* place,
                        uint32_t* count);

  // The object of a descriptor that has just been opened O_PATH; keeps the descriptor. A regular
  // file that has just been made need not be looked at.
  wire::DafsStatus Adopt(const FileSystem& near, Fd path, ObjectRef* object,
                         RecentStats* recent = nullptr);
  wire::DafsStatus AdoptNewFile(const FileSystem& near, Fd path, ObjectRef* object);
  // Another may have been quicker: that one is returned.
  ObjectRef KeepObject(const FileSystem& fs, const wire::FileHandle& handle, Fd path, mode_t type);

  // Looks at a part of the objects that are kept, and gives up those that programs of the server
  // have removed and nobody has open: a descriptor keeps their space. One thread at a time; others
  // return.
  void ForgetRemoved();

  // STALE for an object without any name that nobody has open: it is there only because a cache
  // holds a descriptor, and is forgotten. `nlink` is what statx just said.
  wire::DafsStatus CheckAlive(Object& object, uint32_t nlink);

  // The attributes of an object that is alive.
  wire::DafsStatus GetAttributes(Object& object, uint64_t bitmap, wire::FileAttributes* attributes);
  // The same as `stx` has them, which was asked for after `sample`.
  wire::DafsStatus TellAttributes(Object& object, uint64_t sample, const struct statx& stx,
                                  uint64_t bitmap, wire::FileAttributes* attributes);
  void GetPseudoAttributes(const PseudoNode& node, uint64_t bitmap,
                           wire::FileAttributes* attributes);

  // Closes an open and what ends with it.
  wire::DafsStatus CloseOpen(const wire::ClientId& client_id, const wire::StateId& state_id,
                             const ObjectKey& key);

  // Whether I/O to which `state_id` (zero: none) does not entitle meets a reservation of somebody
  // else, whose lease has not run out.
  wire::DafsStatus CheckDenied(const ObjectKey& key, uint32_t access,
                               const wire::StateId& state_id);
  // Takes everything from the clients whose lease has run out that have `key` open. Whether there
  // was any. No lock of a file is held.
  bool RevokeExpired(const ObjectKey& key);
  // Closes every open of a client. Those in exports that may hang, except `here`, are closed by
  // run_for_export, perhaps later.
  void ReleaseClient(const wire::ClientId& client_id, std::optional<size_t> here = std::nullopt);
  void ReleaseInExport(const wire::ClientId& client_id, size_t export_index);

  // Whether `handle` is one of ours; cheap for those in use.
  bool IsGenuine(const wire::FileHandle& handle);

  // Whether `name` in `directory` is the server's own: that of the orphan directory, at the root of
  // a file system. Elsewhere the name is one like others.
  bool IsReserved(const Object& directory, std::string_view name) const;
  // ACCES for such a name.
  wire::DafsStatus CheckNotReserved(const Object& directory, std::string_view name) const;

  // Removal of a name of a file that may be open; see server/store/procedures/removal.h.
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

  // Held by writers of a file as readers, by what changes its size otherwise as writer. An append
  // is one: nobody moves the position of the file's descriptors but under it.
  absl::Mutex& AppendLock(const ObjectKey& key) {
    auto& locks = LocksOf(key).appends;
    return locks[absl::Hash<ObjectKey>{}(key) % locks.size()];
  }

  // Whether another open may keep descriptors for itself: as long as there is room for locks.
  bool MayPin() {
    return cache.descriptors().load(std::memory_order_relaxed) < max_descriptors / 2;
  }

  // Whether another owner may have locks: each takes a descriptor or two, and files that nobody
  // uses just now give up theirs.
  bool MayLock() {
    return lock_descriptors.load(std::memory_order_relaxed) < max_descriptors / 3 * 2;
  }

  const StoreOptions options;
  const size_t max_descriptors;
  const HandleMac mac;
  const PseudoFs pseudo;
  const uint32_t instance;
  const int64_t start_seconds;              // times and CHANGE of the pseudo file system
  std::atomic<size_t> lock_descriptors{0};  // a count; publishes nothing
  DescriptorCache cache;
  OpenTable opens;
  LockTable locks;
  // Those of a file system: one that may hang has its own, whose lock is held meanwhile.
  Orphans& OrphansOf(const FileSystem& fs);
  Grace grace;
  // For reclaims, one open at a time; before the file's lock.
  absl::Mutex& ReclaimLock(const ObjectKey& key) { return LocksOf(key).reclaiming; }
  Store::RunForExport run_for_export;  // null: at once
  NamedAttributes attributes;
  std::unique_ptr<Mounts> mounts;
  std::unique_ptr<WriteVerifier> write_verifier;
  std::vector<wire::FileHandle> roots;  // by export

 private:
  // The key of what `path` leads to, and the object if it is known already.
  wire::DafsStatus Identify(const FileSystem& near, const Fd& path, const FileSystem** fs,
                            ObjectKey* key, ObjectRef* object);
  wire::DafsStatus OpenByHandle(const wire::FileHandle& handle, ObjectRef* object);
  void TakeUpOrphans(const FileSystem& fs);
  void SweepExport(size_t export_index) ABSL_LOCKS_EXCLUDED(hanging_mutex_);

  OrphanRecord orphan_record_;
  Orphans orphans_;  // of all that does not hang
  struct Hanging {
    const size_t export_index;  // one of those that it is in
    Orphans orphans;
  };
  absl::Mutex hanging_mutex_;
  // By st_dev of the others.
  absl::flat_hash_map<uint64_t, std::unique_ptr<Hanging>> hanging_ ABSL_GUARDED_BY(hanging_mutex_);

  absl::Mutex releasing_mutex_;
  // Clients and exports that run_for_export has: not once more for each try to release them.
  absl::flat_hash_set<std::pair<wire::ClientId, size_t>> releasing_
      ABSL_GUARDED_BY(releasing_mutex_);
  std::atomic<bool> keep_orphans_;  // publishes nothing but itself
  absl::Mutex forgetting_;
  size_t next_part_ ABSL_GUARDED_BY(forgetting_) = 0;
  // Held while a file system is asked, which may hang: each export has its own.
  struct Locks {
    std::array<absl::Mutex, 64> files;
    std::array<absl::Mutex, 64> appends;
    NameGuard::Mutexes names;
    absl::Mutex reclaiming;
  };
  Locks& LocksOf(const ObjectKey& key) {
    if (locks_.size() == 1) return *locks_[0];
    return *locks_[mounts->ExportOf(key.fshandle()).value_or(0)];
  }
  std::vector<std::unique_ptr<Locks>> locks_;  // by export
};

// The CHANGE attribute of an object now; 0 if it cannot be had.
uint64_t ChangeOf(Object& object);

// A name that is to be created, removed or renamed: INVAL for ".", "..", and what no file system
// can hold (R63). StoreImpl::CheckNotReserved follows as soon as the directory is known.
wire::DafsStatus CheckName(const std::string& name);

}  // namespace dafs::server
