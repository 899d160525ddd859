// The local store of `dafsd`: exported directories as DAFS objects. It holds the filehandles, the
// callers' identities, the open files with their share reservations, and every procedure on names,
// attributes and data. It knows nothing of the network, of sessions or of chains: whoever calls
// has decoded the request, put current filehandle and state id in place, and encodes the result.
// Spec: draft 4.1.4, 4.4.1.2, 4.4.2, 6.5.2 .. 6.5.39; WIRE.md 5, 9, 10; ARCHITECTURE "Server".
//
// Thread-safe. Every call may block on the file system, except Read with ReadMode::kNoWait.
//
// Identity: a call leaves its thread with the file system identity (fsuid, fsgid, groups) and the
// reduced capabilities of its caller, so that the next call for the same user need not switch.
// Before a thread does other file work of its own it calls RestoreServerIdentity(); a thread
// started meanwhile would inherit the identity, so threads are started before their parent makes
// a call, or after that. The process has umask 0 and, for what clients may hold open, a high
// RLIMIT_NOFILE; both are the program's business.
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
#include "server/store/objects/export.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/name_check.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::wire {
struct AccessArgs;
struct AccessRes;
struct AllocateArgs;
struct CacheHintArgs;
struct CloseArgs;
struct CommitArgs;
struct CommitRes;
struct CopyRangeArgs;
struct CopyRangeRes;
struct CreateArgs;
struct CreateRes;
struct FileAttributes;
struct FsAttributes;
struct LinkArgs;
struct LinkRes;
struct LockArgs;
struct LockRes;
struct LocktArgs;
struct LocktRes;
struct LockuArgs;
struct LookupArgs;
struct LookupRes;
struct MakeNodeArgs;
struct MakeNodeRes;
struct OpenArgs;
struct OpenRes;
struct OpenDowngradeArgs;
struct OpenExecuteArgs;
struct OpenExecuteRes;
struct OpenHandleArgs;
struct OpenHandleRes;
struct OpenOwnerArgs;
struct OpenOwnerRes;
struct RemoveArgs;
struct RemoveRes;
struct Rename2Args;
struct Rename2Res;
struct RenameArgs;
struct RenameRes;
struct SeekArgs;
struct SeekRes;
}  // namespace dafs::wire

namespace dafs::server {

class Grace;
class Operation;
class RecentStats;
struct Holdings;
struct Intent;
struct JournalSlot;
struct Result;

// On whose behalf a request is executed. Squashing is done by the store, per export.
struct Caller {
  wire::ClientId client_id;      // of the session; keys the opens
  std::string_view client_name;  // client_id_string, the same over restarts
  Holdings* holdings = nullptr;  // where what the client holds is counted; may be null
  uint32_t uid = 65534;          // as the credential names them
  uint32_t gid = 65534;
  std::span<const uint32_t> groups;  // borrowed for the call; at most wire::kGroupsMax
  Peer peer;                         // checked against the export's clients and `insecure`
  Operation* operation = nullptr;    // where a modification is recorded; borrowed, may be null
  RecentStats* recent = nullptr;     // for the GETATTR behind it; borrowed, null on other threads
  wire::NameRule names = wire::NameRule::kUtf8;  // which names it can use
  bool keeps_atime = false;                      // what it reads moves no access time
};

// What survives of the server's memory of its clients and their requests, and of an append that
// asked for no more than DATA_SYNC. COMMIT, FILE_SYNC and a WRITE's DATA_SYNC always reach the
// disk.
enum class Stable : uint8_t {
  kProcess,  // the end of the process, however it comes
  kPower,    // the end of the machine too; every modification waits for the disk
};

struct StoreOptions {
  std::vector<Export> exports;
  std::string state_dir;         // exists, ours alone; holds the handle key and the instance number
  size_t max_descriptors = 0;    // 0: three quarters of RLIMIT_NOFILE
  size_t max_opens = 1 << 20;    // of one client
  uint32_t max_read = 1 << 20;   // bytes; FSATTR MAX_READ
  uint32_t max_write = 1 << 20;  // bytes; more is WRITE_TOOBIG
  uint32_t max_append = 1 << 20;  // bytes, at least 65536 (6.1.6)
  uint32_t pref_io_size = 1 << 20;
  Stable stable = Stable::kProcess;
  absl::Duration lease_time = absl::Seconds(60);
  // Files that had lost their last name while open are kept until the grace period ends; else they
  // go at once.
  bool keep_orphans = false;
};

// Whether Read may wait for the disk.
enum class ReadMode : uint8_t {
  kNoWait,  // answers would_block when not all of it is in the page cache
  kWait,
};

struct ReadResult {
  wire::DafsStatus status = wire::DafsStatus::kOk;
  bool would_block = false;  // nothing was decided: call again with kWait where waiting is allowed
  bool eof = false;          // offset + bytes_read reaches the file size (R85)
  uint32_t bytes_read = 0;
};

struct WriteResult {
  uint32_t count = 0;
  wire::StableHow committed = wire::StableHow::kUnstable;
  wire::Verifier verifier;
};

struct AppendResult {
  uint64_t offset = 0;  // where the data landed
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

// Where every caller is the anonymous user (all_squash).
enum class Squashes : uint8_t { kNobody, kEverybody, kEverybodyInSome };

struct ReaddirResult {
  wire::Verifier cookieverf;
  bool eof = false;
  bool hides_for_port = false;  // exports are left out because the caller has no reserved port
};

// Offers one entry. Returns false when it does not fit: it is then not part of the result, and
// the listing ends before it. `attrs` may be moved from when it returns true.
using ReaddirSink =
    absl::FunctionRef<bool(uint64_t cookie, std::string_view name, wire::FileAttributes& attrs)>;

class StoreImpl;

class Store {
 public:
  // Opens every export and takes up the state directory. An export that cannot be served is an
  // error that says which, why, and what to do about it; so is a process without the privileges
  // that handles and identities need (root).
  // Errors: kInvalidArgument, kFailedPrecondition, kPermissionDenied, kInternal.
  static absl::StatusOr<std::unique_ptr<Store>> Open(StoreOptions options);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Gives the calling thread back the identity and capabilities of the process.
  static void RestoreServerIdentity();

  // --- Names -----------------------------------------------------------------------------------

  // 6.5.12. The root of the pseudo file system, or of the export "/". WRONGSEC, ACCES: no export
  // admits the caller, who would find nothing there.
  wire::DafsStatus GetRootHandle(const Caller& caller, wire::FileHandle* root);

  // In the export that `filehandle` lies in; in the pseudo file system: in the exports below it
  // that admit the caller.
  wire::DafsStatus WhoIsSquashed(const Caller& caller, const wire::FileHandle& filehandle,
                                 Squashes* squashes);

  // 6.5.21. On a component status (WIRE.md 9.3) `res` holds component_count and the filehandle of
  // the last component resolved (zero for none).
  wire::DafsStatus Lookup(const Caller& caller, const wire::LookupArgs& args, wire::LookupRes* res);

  // The path of a directory of the pseudo file system; none for any other handle.
  std::optional<std::string> PathAboveExports(const wire::FileHandle& handle) const;

  // 6.5.22.
  wire::DafsStatus Lookupp(const Caller& caller, const wire::FileHandle& filehandle,
                           wire::FileHandle* parent);

  // 6.5.25. The directory of an object's named attributes. Its handle and those in it are good for
  // LOOKUP, LOOKUPP, READDIR, OPEN, CLOSE, READ, WRITE, COMMIT, GETATTR, SETATTR (of the size),
  // GET_FSATTR, ACCESS and REMOVE; everything else is NOTSUPP (named_attributes.h).
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

  // 6.5.31. The link's content, byte for byte.
  wire::DafsStatus Readlink(const Caller& caller, const wire::FileHandle& filehandle,
                            std::string* link);

  // Whether Readdir of it may take long: not of the directory of an object's named attributes.
  static bool ReaddirMayWait(const wire::FileHandle& filehandle);
  // 6.5.29, 6.5.30. Calls `sink` for entry after entry until it refuses one, or the directory
  // ends (eof). READDIR_NOSPC if it refuses the first. Entries come without "." and "..".
  wire::DafsStatus Readdir(const Caller& caller, const ReaddirRequest& request, ReaddirSink sink,
                           ReaddirResult* res);

  // --- Attributes ------------------------------------------------------------------------------

  // 6.5.2.
  wire::DafsStatus Access(const Caller& caller, const wire::AccessArgs& args, wire::AccessRes* res);

  // 6.5.13, 6.5.14. `included` of the result is the defined part of `bitmap`.
  wire::DafsStatus Getattr(const Caller& caller, const wire::FileHandle& filehandle,
                           uint64_t bitmap, wire::FileAttributes* attributes);

  // 6.5.35, 6.5.36. `bitmap` is what was set, also when the status is an error.
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

  // 6.5.24. Claims CLAIM_NULL, CLAIM_PREVIOUS and CLAIM_CREATE_UNLINKED; no delegations. On a
  // component status `res` is as in Lookup.
  wire::DafsStatus Open(const Caller& caller, const wire::OpenArgs& args, wire::OpenRes* res);

  // Private procedure 1000: OPEN of an existing file by its handle.
  wire::DafsStatus OpenHandle(const Caller& caller, const wire::OpenHandleArgs& args,
                              wire::OpenHandleRes* res);

  // Private procedure 1002: the same for reading what may be read or executed.
  wire::DafsStatus OpenExecute(const Caller& caller, const wire::OpenExecuteArgs& args,
                               wire::OpenExecuteRes* res);

  // 6.5.7, 6.5.26.
  wire::DafsStatus Close(const Caller& caller, const wire::CloseArgs& args);
  wire::DafsStatus OpenDowngrade(const Caller& caller, const wire::OpenDowngradeArgs& args);

  // --- Locks -----------------------------------------------------------------------------------

  // 6.5.18, 6.5.19, 6.5.20. Nothing waits: a blocking LOCK is denied like any other, and keeps its
  // place in the queue for the next time it is asked. On DENIED `res` is the lock in the way: a
  // zero client id and an empty owner for one of a program of the server, or for a range that is
  // kept for somebody who waits.
  wire::DafsStatus Lock(const Caller& caller, const wire::LockArgs& args, wire::LockRes* res);
  wire::DafsStatus Lockt(const Caller& caller, const wire::LocktArgs& args, wire::LocktRes* res);
  wire::DafsStatus Locku(const Caller& caller, const wire::LockuArgs& args);

  // Private procedure 1010: an open for another owner of the client, with the access of one it has.
  wire::DafsStatus OpenOwner(const Caller& caller, const wire::OpenOwnerArgs& args,
                             wire::OpenOwnerRes* res);

  // Closes every open of a client that is gone (new verifier, lease expired), and with them go its
  // locks.
  void ReleaseClient(const wire::ClientId& client_id);
  // What it had open in an export that may hang is closed by `run`, which returns at once and has
  // the work done where that export alone waits. Before the first request; outlives all of them.
  using RunForExport = std::function<void(size_t export_index, absl::AnyInvocable<void()> work)>;
  void SetRunForExport(RunForExport run);
  // The same for one that may come back: what it held is EXPIRED to it.
  void ExpireClient(const wire::ClientId& client_id);

  // --- Data ------------------------------------------------------------------------------------

  // 6.5.27, 6.5.28. Reads up to `into.size()` bytes at `offset`. May be short without eof.
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

  // Whether Append to it may wait for a disk.
  bool AppendMayWait(const wire::FileHandle& filehandle, wire::StableHow stable_how) const;
  // 6.5.3, 6.5.4. All of `from` at the end of the file, or nothing.
  wire::DafsStatus Append(const Caller& caller, const wire::FileHandle& filehandle,
                          const wire::StateId& state_id, std::span<const iovec> from,
                          wire::StableHow stable_how, AppendResult* res);

  // Whether Commit of it may wait for a disk.
  bool CommitMayWait(const wire::FileHandle& filehandle) const;
  // 6.5.8.
  wire::DafsStatus Commit(const Caller& caller, const wire::CommitArgs& args, wire::CommitRes* res);

  // 6.5.6. Tells the kernel what it can at once. *later, if set: what is to be done, and may wait
  // for the disk, when there is time; it owns what it needs. PREFETCH_NOT_SUPPORTED: there is
  // nothing here that could be read ahead (no regular file).
  wire::DafsStatus CacheHint(const Caller& caller, const wire::CacheHintArgs& args,
                             absl::AnyInvocable<void()>* later);

  // Private procedures 1005 to 1007, wire/messages/ranges.h. NOTSUPP also where the file system
  // cannot do it. CopyRange may copy less than asked for.
  wire::DafsStatus Allocate(const Caller& caller, const wire::AllocateArgs& args);
  wire::DafsStatus Seek(const Caller& caller, const wire::SeekArgs& args, wire::SeekRes* res);
  wire::DafsStatus CopyRange(const Caller& caller, const wire::CopyRangeArgs& args,
                             wire::CopyRangeRes* res);

  // --- After a restart -------------------------------------------------------------------------

  // What the file system says about a request that was begun when an earlier instance ended:
  // whether it was executed (5.2.4), and with what result. What was left half done is finished or
  // taken back. Before any other request is executed.
  bool Recheck(wire::Proc procedure, const Intent& intent, Result* result);
  // For one that the journal knows to have been executed: what it does not know of the result.
  void Complete(const Intent& intent, Result* result);

  // The grace period (server/store/holdings/grace.h): started before anybody is served, looked at
  // from time to time.
  Grace& grace();
  // To be called regularly: when the period has ended, what nobody reclaimed goes.
  void EndGrace(absl::Time now);

  // Gives up what programs of the server have removed and nobody has open, so that its space
  // becomes free: a part of what is kept in each call, all of it in kForgetCalls. For a thread that
  // may wait.
  static constexpr int kForgetCalls = 16;
  void ForgetRemoved();

  // The export of a filehandle if a file system in it may hang, by its index: what is asked about
  // it must run where nothing else waits for it. Any thread; never blocks. The handle need not be
  // genuine.
  std::optional<size_t> ExportThatMayHang(const wire::FsHandle& fshandle) const;
  // Whether a path from a directory with this FSHandle may lead from above the exports into one
  // that may hang. Cheap.
  bool IsAboveWhatMayHang(const wire::FsHandle& fshandle) const;
  // The same for the export that `path` leads to from a directory of the pseudo file system.
  std::optional<size_t> ExportThatMayHang(const wire::FileHandle& directory,
                                          std::span<const std::string> path) const;

  // Uncommitted data may have been lost: every client has to write again (6.5.8).
  void NoteLoss();

  // --- For statistics and tests ----------------------------------------------------------------

  size_t open_count() const;              // opens held by clients
  size_t lock_count() const;              // locks held by clients
  size_t descriptor_count() const;        // descriptors held for objects
  wire::Verifier write_verifier() const;  // of the first export

 private:
  explicit Store(std::unique_ptr<StoreImpl> impl);

  std::unique_ptr<StoreImpl> impl_;
};

}  // namespace dafs::server
