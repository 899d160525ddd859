// The local store of `dafsd`: exported directories as DAFS objects. It contains the filehandles,
// the callers' identities, the open files with their share reservations, and every procedure on
// names, attributes and data. It does not depend on the network, sessions or chains: its caller
// decodes the request, fills in the current filehandle and state id, and encodes the result.
// Spec: draft 4.1.4, 4.4.1.2, 4.4.2, 6.5.2 .. 6.5.39; WIRE 5, 9, 10; docs/decisions.md, Server.
//
// Thread-safe. Every call may block on the file system, except Read with ReadMode::kNoWait.
//
// Identity: a call leaves its thread with the file system identity (fsuid, fsgid, groups) and the
// reduced capabilities of the caller, so that the next call for the same user need not switch. A
// thread calls RestoreServerIdentity() before it does other file work of its own. A new thread
// inherits the identity, so a program starts threads before their parent makes a call, or after it
// restored the identity. The program sets umask 0 and an RLIMIT_NOFILE high enough for what clients
// may hold open.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/holdings/caller.h"
#include "server/store/objects/export_set.h"
#include "server/store/objects/handle.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/name_check.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::wire {
struct FileAttributes;
struct FsAttributes;
}  // namespace dafs::wire

namespace dafs::server {

class Fencing;
class Grace;
class Inventory;
class Operation;
class WriteVerifier;
struct Holdings;
struct Intent;
struct JournalSlot;
struct Result;

// The names of exports that a reload has changed.
struct ExportChanges {
  std::vector<std::string> added, removed, changed;
  bool none() const { return added.empty() && removed.empty() && changed.empty(); }
};

// Which failure the following survive: the server's record of its clients and their requests, and
// an append with at most DATA_SYNC. COMMIT, FILE_SYNC and a WRITE's DATA_SYNC always reach the
// disk.
enum class Stable : uint8_t {
  kProcess,  // the end of the process, even by a crash
  kPower,    // also a crash of the machine; every modification waits for the disk
};

struct StoreOptions {
  std::vector<Export> exports;
  // Exists; used by this server alone. Holds the handle key and the instance number.
  std::string state_dir;
  size_t max_descriptors = 0;     // 0: three quarters of RLIMIT_NOFILE
  size_t max_opens = 1 << 20;     // per client
  uint32_t max_read = 1 << 20;    // bytes; FSATTR MAX_READ
  uint32_t max_write = 1 << 20;   // bytes; a larger WRITE fails with WRITE_TOOBIG
  uint32_t max_append = 1 << 20;  // bytes, at least 65536 (6.1.6)
  uint32_t pref_io_size = 1 << 20;
  Stable stable = Stable::kProcess;
  absl::Duration lease_time = absl::Seconds(60);
  // Keeps files that lost their last name while open until the grace period ends. Otherwise they
  // are removed at once.
  bool keep_orphans = false;
  Promises::Limits promises;  // of_client 0: the server makes no promises
  Delegations::Options delegations;
  // Grants read delegations also where local programs change files (KernelLeases). A recall must be
  // over before KernelLeases::BreakTime().
  bool use_leases = true;
};

// Whether the client of a session is trusted (3.1.1.1.2).
enum class Trust : uint8_t { kNone, kTrusted };

// Whether Read may wait for the disk.
enum class ReadMode : uint8_t {
  kNoWait,  // returns would_block unless all of the data is in the page cache
  kWait,
};

struct ReadResult {
  wire::DafsStatus status = wire::DafsStatus::kOk;
  bool would_block = false;  // nothing was decided: call again with kWait on a thread that may wait
  bool eof = false;          // offset + bytes_read reaches the file size (R85)
  uint32_t bytes_read = 0;
};

struct WriteResult {
  uint32_t count = 0;
  wire::StableHow committed = wire::StableHow::kUnstable;
  wire::Verifier verifier;
};

struct AppendResult {
  uint64_t offset = 0;  // where the data was written
  wire::StableHow committed = wire::StableHow::kDataSync;
  wire::Verifier verifier;
};

// The arguments that READDIR_INLINE and READDIR_DIRECT share.
struct ReaddirRequest {
  wire::FileHandle filehandle;
  uint64_t cookie = 0;
  wire::Verifier cookieverf;
  uint32_t dircount = 0;
  uint64_t attr_request_bitmap = 0;
};

// Whether a caller becomes the anonymous user (all_squash): in no export, in all, or in some.
enum class Squashes : uint8_t { kNobody, kEverybody, kEverybodyInSome };

struct ReaddirResult {
  wire::Verifier cookieverf;
  bool eof = false;
  bool hides_for_security = false;  // exports are left out that refuse the caller with kWrongSec
};

// Receives one entry. Returns false if the entry does not fit: the listing then ends before it. If
// it returns true, it may have moved from `attrs`.
using ReaddirSink =
    absl::FunctionRef<bool(uint64_t cookie, std::string_view name, wire::FileAttributes& attrs)>;

class StoreImpl;

class Store {
 public:
  // Create and OpenExports, without a limit of time.
  static absl::StatusOr<std::unique_ptr<Store>> Open(StoreOptions options);

  // Reads the state directory. Fails if the process lacks the privileges that handles and
  // identities need (root). Errors: kInvalidArgument, kFailedPrecondition, kPermissionDenied,
  // kInternal.
  static absl::StatusOr<std::unique_ptr<Store>> Create(StoreOptions options);
  // Opens every export. Waits at most `within` for their file systems. If an export cannot be
  // served, the error names the export, the reason and the remedy. An export that did not answer
  // in time is opened later: until then requests for it get DELAY. If it then cannot be served,
  // that is logged, and it is tried again. `settle` is called once for each export after it was
  // opened, before requests reach it, on a thread that may wait for it. If a reload removes the
  // export first, that is when a later one adds it again. Call once, before the first
  // request. Needs the server's own identity.
  absl::Status OpenExports(std::function<void(size_t export_index)> settle, absl::Duration within);
  // From now on, no export that cannot be served is tried again.
  void EndOpening();
  // Waits for the exports that are still being opened. Returns false if there are some at
  // `deadline`. The destructor waits without limit.
  bool AwaitOpened(absl::Time deadline) const;
  std::vector<size_t> Opening() const;  // their indices
  size_t export_count() const;          // at the start

  // The present exports. Valid as long as the store.
  const ExportSet& exports() const;
  // Replaces the exports while requests run. The next request sees the new ones.
  // - Added: its directory is opened first; waits at most `within` for its file system.
  // - Removed: requests fail with ACCES. Opens and locks in it are released, also by requests that
  //   are under way; their state ids fail with EXPIRED. Its file systems can be unmounted then. For
  //   an export that may hang this happens on its own threads, perhaps later.
  // - Changed options: the delegations in it are recalled.
  // All promises end if anything has changed. On an error nothing has changed: kInvalidArgument
  // (CheckExports), kFailedPrecondition or kDeadlineExceeded (a directory cannot be served; the
  // message begins with `export NAME=DIRECTORY: `), kResourceExhausted. Needs the server's own
  // identity. Thread-safe.
  absl::StatusOr<ExportChanges> ReloadExports(std::vector<Export> wanted, absl::Duration within);

  // Finds exports whose path leads to another directory than before, and serves that directory
  // from then on. Call regularly on a thread that may wait.
  void FollowPaths();
  // The index of the export of objects with this FSHandle; nullopt if there is none, or if it is
  // not open yet.
  std::optional<size_t> ExportOf(const wire::FsHandle& fshandle) const;
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Restores the identity and capabilities of the process on the calling thread.
  static void RestoreServerIdentity();

  // --- Names -----------------------------------------------------------------------------------

  // 6.5.12. The root of the pseudo file system, or of the export "/". WRONGSEC, ACCES: no export
  // admits the caller, so the root would be empty.
  wire::DafsStatus GetRootHandle(const Caller& caller, wire::FileHandle* root);

  // Reports squashing in the export of `filehandle`. For a directory of the pseudo file system: in
  // the exports below it that admit the caller.
  wire::DafsStatus WhoIsSquashed(const Caller& caller, const wire::FileHandle& filehandle,
                                 Squashes* squashes);

  // 6.5.21. On a component status (WIRE 9.3) `res` holds component_count and the filehandle of
  // the last component resolved (zero for none).
  wire::DafsStatus Lookup(const Caller& caller, const wire::LookupArgs& args, wire::LookupRes* res);

  // The path of a directory of the pseudo file system; nullopt for any other handle.
  std::optional<std::string> PathAboveExports(const wire::FileHandle& handle) const;

  // 6.5.22.
  wire::DafsStatus Lookupp(const Caller& caller, const wire::FileHandle& filehandle,
                           wire::FileHandle* parent);

  // 6.5.25. The directory of an object's named attributes. Its handle and the handles in it can be
  // used with LOOKUP, LOOKUPP, READDIR, OPEN, CLOSE, READ, WRITE, COMMIT, GETATTR, SETATTR (of the
  // size), GET_FSATTR, ACCESS and REMOVE. Everything else fails with NOTSUPP (named_attributes.h).
  wire::DafsStatus Openattr(const Caller& caller, const wire::FileHandle& filehandle,
                            wire::FileHandle* directory);

  // 6.5.9, 6.5.17, 6.5.33, 6.5.34.
  wire::DafsStatus Create(const Caller& caller, const wire::CreateArgs& args, wire::CreateRes* res);
  wire::DafsStatus Link(const Caller& caller, const wire::LinkArgs& args, wire::LinkRes* res);
  wire::DafsStatus Remove(const Caller& caller, const wire::RemoveArgs& args, wire::RemoveRes* res);
  wire::DafsStatus Rename(const Caller& caller, const wire::RenameArgs& args, wire::RenameRes* res);

  // Private procedures 1001 and 1003, see wire/messages/posix.h.
  wire::DafsStatus Rename2(const Caller& caller, const wire::Rename2Args& args,
                           wire::Rename2Res* res);
  wire::DafsStatus MakeNode(const Caller& caller, const wire::MakeNodeArgs& args,
                            wire::MakeNodeRes* res);

  // 6.5.31. The content of the link, byte for byte.
  wire::DafsStatus Readlink(const Caller& caller, const wire::FileHandle& filehandle,
                            std::string* link);

  // Whether Readdir of this directory may take long. Not for the directory of named attributes.
  static bool ReaddirMayWait(const wire::FileHandle& filehandle);
  // 6.5.29, 6.5.30. Calls `sink` for each entry except "." and "..", until it returns false or the
  // directory ends (eof). READDIR_NOSPC if it returns false for the first entry.
  wire::DafsStatus Readdir(const Caller& caller, const ReaddirRequest& request, ReaddirSink sink,
                           ReaddirResult* res);

  // --- Attributes ------------------------------------------------------------------------------

  // 6.5.2.
  wire::DafsStatus Access(const Caller& caller, const wire::AccessArgs& args, wire::AccessRes* res);

  // 6.5.13, 6.5.14. `included` of the result is the defined part of `bitmap`.
  wire::DafsStatus Getattr(const Caller& caller, const wire::FileHandle& filehandle,
                           uint64_t bitmap, wire::FileAttributes* attributes);

  // 6.5.35, 6.5.36. `bitmap` reports what was set, also if the status is an error.
  wire::DafsStatus Setattr(const Caller& caller, const wire::FileHandle& filehandle,
                           const wire::StateId& state_id, const wire::FileAttributes& attributes,
                           uint64_t* bitmap);

  // 6.5.15.
  wire::DafsStatus GetFsattr(const Caller& caller, const wire::FileHandle& filehandle,
                             uint64_t bitmap, wire::FsAttributes* attributes);

  // 6.5.37, 6.5.23.
  wire::DafsStatus Verify(const Caller& caller, const wire::FileHandle& filehandle,
                          const wire::FileAttributes& attributes);
  wire::DafsStatus Nverify(const Caller& caller, const wire::FileHandle& filehandle,
                           const wire::FileAttributes& attributes);

  // --- Opens -----------------------------------------------------------------------------------

  // 6.5.24. On a component status `res` is as in Lookup. Only clients that are known to use
  // delegations get some (Delegations::Admit).
  wire::DafsStatus Open(const Caller& caller, const wire::OpenArgs& args, wire::OpenRes* res);

  // Private procedure 1000: OPEN of an existing file by its handle.
  wire::DafsStatus OpenHandle(const Caller& caller, const wire::OpenHandleArgs& args,
                              wire::OpenHandleRes* res);

  // Private procedure 1011: the same, with a delegation.
  wire::DafsStatus OpenDelegated(const Caller& caller, const wire::OpenDelegatedArgs& args,
                                 wire::OpenDelegatedRes* res);

  // 6.5.10, 6.5.11.
  wire::DafsStatus Delegpurge(const Caller& caller, const wire::DelegpurgeArgs& args);
  wire::DafsStatus Delegreturn(const Caller& caller, const wire::DelegreturnArgs& args);
  // Ends a delegation that was recalled and not returned: its state id then fails with EXPIRED.
  void RevokeDelegation(const Delegations::Delegation& delegation);
  // Ends what clients with an expired lease hold of the file of a delegation that is recalled.
  void RevokeExpired(const Delegations::Delegation& delegation);
  Delegations& delegations();

  // Private procedure 1002: opens for reading a file that the caller may read or execute.
  wire::DafsStatus OpenExecute(const Caller& caller, const wire::OpenExecuteArgs& args,
                               wire::OpenExecuteRes* res);

  // 6.5.7, 6.5.26.
  wire::DafsStatus Close(const Caller& caller, const wire::CloseArgs& args);
  wire::DafsStatus OpenDowngrade(const Caller& caller, const wire::OpenDowngradeArgs& args);

  // --- Locks -----------------------------------------------------------------------------------

  // 6.5.18, 6.5.19, 6.5.20. Nothing waits: a blocking LOCK is denied like any other, and keeps its
  // place in the queue while the client retries. On DENIED `res` is the conflicting lock, or the
  // range that is reserved for an owner that waits. Its client id is zero and its owner empty if a
  // local program holds it. DEADLOCK, only with kLockOfProcess: the owner has no place in the
  // queue.
  wire::DafsStatus Lock(const Caller& caller, const wire::LockArgs& args, wire::LockRes* res);
  wire::DafsStatus Lockt(const Caller& caller, const wire::LocktArgs& args, wire::LocktRes* res);
  wire::DafsStatus Locku(const Caller& caller, const wire::LockuArgs& args);

  // Private procedure 1010: an open for another owner of the client, with the access of an open
  // that the client has.
  wire::DafsStatus OpenOwner(const Caller& caller, const wire::OpenOwnerArgs& args,
                             wire::OpenOwnerRes* res);

  // Closes every open of a client that is gone (new verifier, lease expired) and releases its
  // locks.
  void ReleaseClient(const wire::ClientId& client_id);
  // ReleaseClient of `from`, of which `to` is a later instance. For a lease time it may claim the
  // write delegations of `from` (CLAIM_DELEGATE_PREV).
  void SupersedeClient(const wire::ClientId& from, const wire::ClientId& to, std::string_view name);
  // Sets how opens in an export that may hang are closed. `run` returns at once and executes the
  // work where only that export waits. Call before the first request. `run` outlives all requests.
  using RunForExport = std::function<void(size_t export_index, absl::AnyInvocable<void()> work)>;
  void SetRunForExport(RunForExport run);
  // Sets how waiting clients are notified that a lock can be granted. `send` returns at once: false
  // if it cannot reach the client. Call before the first request. `send` outlives all requests.
  using SendLockFree =
      std::function<bool(const wire::ClientId& client_id, const wire::BcLockFreeArgs& args)>;
  void SetSendLockFree(SendLockFree send);
  // The client cannot be notified until it requests its locks again.
  void CannotBeTold(const wire::ClientId& client_id);
  // For the administrator: ends the open of this lock owner of a file as a revocation does. Its
  // locks are released and waiters get theirs; its state id then fails with EXPIRED, so that the
  // client knows. Returns false if there is no such open. Blocks on the file system.
  bool RevokeOwner(const ObjectKey& file, const wire::ClientId& client_id, std::string_view owner);
  // As ReleaseClient, for a client that may return: its state ids then fail with EXPIRED.
  void ExpireClient(const wire::ClientId& client_id);

  // --- Data ------------------------------------------------------------------------------------

  // 6.5.27, 6.5.28. Reads up to `into.size()` bytes at `offset`. The result may be short without
  // eof.
  ReadResult Read(const Caller& caller, const wire::FileHandle& filehandle,
                  const wire::StateId& state_id, uint64_t offset, std::span<std::byte> into,
                  ReadMode mode);
  // The same into several buffers, in order.
  ReadResult Readv(const Caller& caller, const wire::FileHandle& filehandle,
                   const wire::StateId& state_id, uint64_t offset, std::span<const iovec> into,
                   ReadMode mode);

  // 6.5.38, 6.5.39. Writes the bytes of `from`, in order, at `offset`.
  wire::DafsStatus Write(const Caller& caller, const wire::FileHandle& filehandle,
                         const wire::StateId& state_id, uint64_t offset,
                         std::span<const iovec> from, wire::StableHow stable_how, WriteResult* res);

  // Whether Append to this file may wait for a disk.
  bool AppendMayWait(const wire::FileHandle& filehandle, wire::StableHow stable_how) const;
  // 6.5.3, 6.5.4. Writes all of `from` at the end of the file, or nothing.
  wire::DafsStatus Append(const Caller& caller, const wire::FileHandle& filehandle,
                          const wire::StateId& state_id, std::span<const iovec> from,
                          wire::StableHow stable_how, AppendResult* res);

  // Whether Commit of this file may wait for a disk.
  bool CommitMayWait(const wire::FileHandle& filehandle) const;
  // 6.5.8.
  wire::DafsStatus Commit(const Caller& caller, const wire::CommitArgs& args, wire::CommitRes* res);

  // 6.5.6. Gives the kernel the advice that needs no waiting. *later, if set, is work that may wait
  // for the disk; it owns what it uses, and the caller runs it when there is time.
  // PREFETCH_NOT_SUPPORTED: not a regular file, so there is nothing to read ahead.
  wire::DafsStatus CacheHint(const Caller& caller, const wire::CacheHintArgs& args,
                             absl::AnyInvocable<void()>* later);

  // Private procedures 1005 to 1007, wire/messages/ranges.h. NOTSUPP also if the file system does
  // not support the operation. CopyRange may copy less than requested.
  wire::DafsStatus Allocate(const Caller& caller, const wire::AllocateArgs& args);
  wire::DafsStatus Seek(const Caller& caller, const wire::SeekArgs& args, wire::SeekRes* res);
  wire::DafsStatus CopyRange(const Caller& caller, const wire::CopyRangeArgs& args,
                             wire::CopyRangeRes* res);

  // --- After a restart -------------------------------------------------------------------------

  // Compares with the file system a request that had begun when an earlier instance ended. Returns
  // whether it was executed (5.2.4), with its result. Completes or undoes a half-executed request.
  // Call before any other request reaches its export.
  bool Recheck(wire::Proc procedure, const Intent& intent, Result* result);
  // For a request that the journal records as executed: adds to the result the values that the
  // journal does not contain.
  void Complete(const Intent& intent, Result* result);

  // The grace period (server/store/holdings/grace.h). Started before the first client is served,
  // and polled regularly.
  Grace& grace();
  // Call regularly. After the period has ended, removes what no client reclaimed.
  void EndGrace(absl::Time now);

  // Ends the leases that protect delegations from local programs: the hooks of Delegations are not
  // called for these any more. Call before what the hooks use ends.
  void EndLeases();

  // Releases the descriptors of objects that local programs have removed and no client has open, so
  // that the file system frees their space. Recalls the delegations of such files. Each call checks
  // one part of the objects; kForgetCalls calls check all. Call on a thread that may wait.
  static constexpr int kForgetCalls = 16;
  void ForgetRemoved();

  // The index of the export of a filehandle, if a file system in the export may hang. Work on such
  // an export must run where nothing else waits for it. Any thread; never blocks. The handle need
  // not be genuine.
  std::optional<size_t> ExportThatMayHang(const wire::FsHandle& fshandle) const;
  // Whether a directory with this FSHandle is above the exports, and a path from it may lead into
  // an export that may hang. Cheap.
  bool IsAboveWhatMayHang(const wire::FsHandle& fshandle) const;
  // The index of the export that `path` leads to from a directory of the pseudo file system, if the
  // export may hang.
  std::optional<size_t> ExportThatMayHang(const wire::FileHandle& directory,
                                          std::span<const std::string> path) const;

  // --- Fencing ---------------------------------------------------------------------------------

  // 6.4.1, 6.4.2. NOT_AUTHORIZED: the caller is neither trusted nor the owner of the file, or not
  // trusted and the object is a file system. INVAL: a directory above the exports, or a change that
  // server/store/fencing/fence_list.h refuses. After SetFencingList no access that begins violates
  // the list; Fencing::sessions() awaits those that have begun. Both block on the disk.
  wire::DafsStatus GetFencingList(const Caller& caller, Trust trust,
                                  const wire::GetFencingListArgs& args,
                                  wire::GetFencingListRes* res);
  wire::DafsStatus SetFencingList(const Caller& caller, Trust trust,
                                  const wire::SetFencingListArgs& args);
  // After a change: revokes the delegations, and ends the promises, of clients that the lists of
  // the object shut out. Does not wait for these clients. Needs a thread that may wait for the
  // disk.
  void EndFenced(const wire::FileHandle& filehandle, wire::FenceObject kind);
  Fencing& fencing();

  // Sets what makes the calls by which all promises end, because the path of an export leads to
  // another directory. `end` must not block. Call before the first request.
  using EndPromises = std::function<void(std::vector<Promises::Call> calls)>;
  void SetEndPromises(EndPromises end);

  // The promises to clients. Valid as long as the store.
  Promises& promises();
  // The filehandle of the object with this key.
  wire::FileHandle HandleOf(const ObjectKey& key) const;

  // The write verifiers of the files in all exports. Valid as long as the store.
  WriteVerifier& write_verifiers();

  // Opens, locks and waiters of clients, for the administrator.
  Inventory inventory() const;

  // --- For statistics and tests ----------------------------------------------------------------

  size_t open_count() const;        // opens held by clients
  size_t lock_count() const;        // locks held by clients
  size_t descriptor_count() const;  // descriptors held for objects

 private:
  explicit Store(std::unique_ptr<StoreImpl> impl);

  std::unique_ptr<StoreImpl> impl_;
};

}  // namespace dafs::server
