// The files of an export, as one worker sees them: every operation of a mount as a coroutine over
// the worker's session. What the protocol can chain is one round trip.
// Spec: chapter 4, 6.5; 4.3 (chains); WIRE 8, 9, 10.
//
// Belongs to the thread of its loop. Nothing blocks that thread but connection set-up, which may
// take as long as the transport needs to find its route. Arguments taken by reference outlive the
// returned task. No operation may be destroyed before it has ended; Shutdown ends them all.
//
// When the session is lost, operations wait while a new one is built in the background. The
// server's Response Cache then tells which requests it had carried out, and their answers are
// fetched; the others are issued again, a chain from its first unanswered member on (4.3.4, 5.2.5).
// When the server has restarted, opens are reclaimed before anything else is asked of it. The
// caller notices nothing of all that but the time it takes. A state id that Files gives out names
// the open for good (client/state/opens.h); it is no state id of the server's.
//
// Errors of all operations, beside those named at each:
//   kUnimplemented     the server has no such procedure
//   kDeadlineExceeded  soft mount: the server did not answer in time
//   kCancelled         Shutdown
//   kUnknown           unknown fate: the session was lost while a request that must not be done
//                      twice was out, and the server kept no Response Cache of it. Logged with the
//                      name of the operation. Also: a lock or share reservation was lost with the
//                      server's state. (EIO for the application.)
//   any code of StatusFromDafs, with the DAFS code as payload (wire::DafsFromStatus): what the
//   server answered. STALE is passed up, and FHEXPIRED of anything but the root; DELAY and GRACE
//   are waited out here.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/memory/buffer_pool.h"
#include "client/recovery/data_parts.h"
#include "client/recovery/data_target.h"
#include "client/state/client.h"
#include "client/state/data_results.h"
#include "client/state/identity.h"
#include "client/state/lock_answer.h"
#include "client/state/locks.h"
#include "client/state/node.h"
#include "client/state/open_file.h"
#include "client/state/xattrs.h"
#include "runtime/loop.h"
#include "runtime/task.h"
#include "wire/codec/direct.h"
#include "wire/messages/messages.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/types.h"

namespace dafs::client {

template <class ArgsType>
class Call;
class CallBase;
class Batches;
class Committer;
class Connection;
class LockWait;
class Reclaim;
class Runner;
struct WorkerReport;

class Files {
 public:
  // Nothing is sent yet: the first operation connects. Allocates the worker's buffer pool.
  static absl::StatusOr<std::unique_ptr<Files>> Create(Client& client, dat::Loop& loop);
  // After Shutdown, outside of the loop's callbacks.
  ~Files();
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  // ---- The mount ---------------------------------------------------------------------------

  // Builds the session now, once, without repeating: tells why it is impossible (address refused,
  // authentication, ...) instead of waiting. kUnavailable: no connection; kPermissionDenied: not
  // authenticated; others from the server. For the start of a mount; operations connect by
  // themselves otherwise.
  dat::Task<absl::Status> Connect();
  // GET_ROOT_HANDLE, LOOKUP of the export path, GETATTR and GET_FSATTR in one chain: the root of
  // the mount. Also learns the server's limits, for all workers of the client.
  // NOENT: no such export; ACCES: not for this caller or this client.
  dat::Task<absl::StatusOr<Node>> Mount(const Identity& who);
  // DISCONNECT and close. Operations that are still out end with kCancelled.
  dat::Task<void> Disconnect();
  // Ends everything now: all operations, waiting or out, end with kCancelled before this returns.
  void Shutdown();

  // While it lives, and if `wanted`, what operations ask of the server as they begin leaves at the
  // loop's next turn, in one piece, instead of each at once: for who has several to begin. Sending
  // is a third of what a small request costs.
  class Gathering {
   public:
    Gathering(Files& files, bool wanted);
    ~Gathering();
    Gathering(const Gathering&) = delete;
    Gathering& operator=(const Gathering&) = delete;

   private:
    Runner& runner_;
    const bool before_;  // one may live in another
  };

  // ---- Names -------------------------------------------------------------------------------

  // Operations that change a directory take `after`: the attributes of that directory behind the
  // change, in the same chain; nothing valid in them if they cannot be had. Null: not asked for.

  dat::Task<absl::StatusOr<Node>> Lookup(const Identity& who, const wire::FileHandle& directory,
                                         std::string_view name);
  dat::Task<absl::StatusOr<Node>> LookupParent(const Identity& who,
                                               const wire::FileHandle& directory);
  // `attributes`: mode, owner and the like, set as the directory is made. The node comes back.
  dat::Task<absl::StatusOr<Node>> MakeDirectory(const Identity& who,
                                                const wire::FileHandle& directory,
                                                std::string_view name,
                                                const wire::FileAttributes& attributes,
                                                wire::FileAttributes* after = nullptr);
  // NAMETOOLONG also for a target that does not fit into a message.
  dat::Task<absl::StatusOr<Node>> MakeSymlink(const Identity& who,
                                              const wire::FileHandle& directory,
                                              std::string_view name, std::string_view target,
                                              wire::FileAttributes* after = nullptr);
  // BLK, CHR, SOCK, FIFO or REG. Private procedure 1003 MAKE_NODE; at a server without it CREATE,
  // then SETATTR of the mode (REG: OPEN GUARDED, CLOSE).
  dat::Task<absl::StatusOr<Node>> MakeNode(const Identity& who, const wire::FileHandle& directory,
                                           std::string_view name, wire::ObjectType type,
                                           const wire::SpecData& device, uint32_t mode,
                                           wire::FileAttributes* after = nullptr);
  // The attributes that come back are those of `file` with its new link count.
  dat::Task<absl::StatusOr<Node>> Link(const Identity& who, const wire::FileHandle& file,
                                       const wire::FileHandle& directory, std::string_view name,
                                       wire::FileAttributes* after = nullptr);
  // Unlink and rmdir alike. NOTEMPTY, NOENT.
  dat::Task<absl::Status> Remove(const Identity& who, const wire::FileHandle& directory,
                                 std::string_view name, wire::FileAttributes* after = nullptr);
  // `from_after` and `to_after`: of either directory; of one directory only the first is filled in.
  dat::Task<absl::Status> Rename(const Identity& who, const wire::FileHandle& from_directory,
                                 std::string_view from_name, const wire::FileHandle& to_directory,
                                 std::string_view to_name,
                                 wire::FileAttributes* from_after = nullptr,
                                 wire::FileAttributes* to_after = nullptr);
  // Private procedure 1001 RENAME2. `flags`: wire::kRenameNoReplace or kRenameExchange.
  // kUnimplemented: the server has none.
  dat::Task<absl::Status> Rename2(const Identity& who, const wire::FileHandle& from_directory,
                                  std::string_view from_name, const wire::FileHandle& to_directory,
                                  std::string_view to_name, uint32_t flags);
  dat::Task<absl::StatusOr<std::string>> ReadLink(const Identity& who,
                                                  const wire::FileHandle& link);

  // ---- Attributes --------------------------------------------------------------------------

  dat::Task<absl::StatusOr<wire::FileAttributes>> GetAttributes(const Identity& who,
                                                                const wire::FileHandle& file);
  // Sets what is valid in `attributes` (nothing: as chown(2) that changes neither owner nor group);
  // the attributes after it come back. `state_id` zero: none
  // (a size is then checked against other clients' shares).
  dat::Task<absl::StatusOr<wire::FileAttributes>> SetAttributes(
      const Identity& who, const wire::FileHandle& file, const wire::StateId& state_id,
      const wire::FileAttributes& attributes);
  // `access`: wire::kAccess... bits; which of them the caller has.
  dat::Task<absl::StatusOr<uint32_t>> Access(const Identity& who, const wire::FileHandle& file,
                                             uint32_t access);
  dat::Task<absl::StatusOr<wire::FsAttributes>> StatFs(const Identity& who,
                                                       const wire::FileHandle& file);

  // ---- Open files --------------------------------------------------------------------------

  // OPEN, SETATTR where truncation or an exclusive create needs it, GETATTR: one chain.
  // EXIST, SYMLINK, ISDIR, DENIED (a share conflict), ...
  dat::Task<absl::StatusOr<OpenFile>> Open(const Identity& who, const OpenRequest& request,
                                           wire::FileAttributes* after = nullptr);
  // Private procedure 1000 OPEN_HANDLE; a server without it gives an OpenFile with state id zero,
  // under which reads and writes are allowed but checked each time.
  dat::Task<absl::StatusOr<OpenFile>> OpenByHandle(const Identity& who,
                                                   const wire::FileHandle& file,
                                                   uint32_t share_access, std::string_view owner);
  // A file without a name in the file system of `directory`, which vanishes at its last close
  // unless it is linked (OPEN with CLAIM_CREATE_UNLINKED). Of `request` directory, shares, owner
  // and attributes count. kUnimplemented also where the file system cannot do it.
  dat::Task<absl::StatusOr<OpenFile>> OpenUnlinked(const Identity& who, const OpenRequest& request);
  // Gives up shares of an open: what is left must be part of what it has (INVAL). 6.5.26.
  dat::Task<absl::Status> Downgrade(const Identity& who, const wire::FileHandle& file,
                                    const wire::StateId& state_id, uint32_t share_access,
                                    uint32_t share_deny);
  // Private procedure 1002 OPEN_EXECUTE: for reading by who may read or execute it; at a server
  // without it as OpenByHandle.
  dat::Task<absl::StatusOr<OpenFile>> OpenForExecution(const Identity& who,
                                                       const wire::FileHandle& file,
                                                       std::string_view owner);
  // Whether the open can still be used: it was not lost with the server's state. Asks nobody.
  bool IsOpen(const wire::StateId& state_id) const;
  // A zero state id: nothing to do, OK. Locks of this open are given up first. `can_wait`: nobody
  // waits for the answer, so the request may leave together with the next one, within
  // 5 ms.
  dat::Task<absl::Status> Close(const Identity& who, const wire::FileHandle& file,
                                const wire::StateId& state_id, bool can_wait = false);

  // ---- Locks -------------------------------------------------------------------------------

  // Private procedure 1010 OPEN_OWNER: a further open of `file`, for `owner`, with the access
  // (`share_access`) that its open `state_id` has, whatever the file's mode says by now. Returns
  // its state id, to be closed like any. kUnimplemented: a server without it.
  dat::Task<absl::StatusOr<wire::StateId>> OpenForOwner(const Identity& who,
                                                        const wire::FileHandle& file,
                                                        const wire::StateId& state_id,
                                                        uint32_t share_access,
                                                        std::string_view owner);
  // Takes `range` for `owner`, whose OPEN allows it: a lock for reading needs an open for reading,
  // one for writing an open for writing, flock neither. Replaces what the owner held there. With
  // `wait`, which outlives the task, it goes on asking until it is granted, cancelled, or a
  // deadlock; no slot is held between two questions. kUnimplemented: the server has no locks.
  // ACCES, BAD_STATEID, EXPIRED, RESOURCE (too many locks).
  dat::Task<absl::StatusOr<LockAnswer>> Lock(const Identity& who, const LockOwner& owner,
                                             const wire::LockRange& range,
                                             LockWait* wait = nullptr);
  // After a silence in which the leases may have run out: asks for each lock whether it is still
  // held (4.4.1.2). One that is not is logged, and the next use of its file fails.
  dat::Task<void> ValidateLocks();
  // Who stands in the way of `range` for the owner of this name; nobody: nullopt.
  dat::Task<absl::StatusOr<std::optional<LockConflict>>> TestLock(const Identity& who,
                                                                  const wire::FileHandle& file,
                                                                  std::string_view owner,
                                                                  const wire::LockRange& range);
  // Undoes a lock that was granted when nobody wanted it any more: `before` is held again, and
  // nothing else of `range`. Nobody else gets what is to be kept meanwhile.
  dat::Task<absl::Status> GiveBack(const Identity& who, const LockOwner& owner,
                                   const wire::LockRange& range,
                                   const std::vector<wire::LockRange>& before);
  // Gives up everything from `first` to `last`, inclusive. OK also if nothing was held.
  dat::Task<absl::Status> Unlock(const Identity& who, const LockOwner& owner, uint64_t first,
                                 uint64_t last);

  // ---- Data --------------------------------------------------------------------------------

  // Reads up to `size` bytes from byte `offset` into the payload of `into`, from its start.
  // Returns the bytes placed, 0..size, and whether the end was reached; short only at the end.
  // READ_DIRECT, or READ_INLINE when small; in parallel pieces beyond the server's largest read.
  // `into` stays leased until this returns, and holds at least `size`. `quiet`: it moves no access
  // time, where the server can do that.
  dat::Task<absl::StatusOr<ReadResult>> Read(const Identity& who, const wire::FileHandle& file,
                                             const wire::StateId& state_id, uint64_t offset,
                                             BufferLease& into, uint32_t size, bool quiet = false);
  // Writes `size` bytes from `position` bytes behind the start of the payload of `from`. `after`,
  // which may be null: the file's attributes behind it, in the same chain, if it is small and went
  // in one piece; nothing valid in them otherwise.
  dat::Task<absl::StatusOr<WriteResult>> Write(const Identity& who, const wire::FileHandle& file,
                                               const wire::StateId& state_id, uint64_t offset,
                                               const BufferLease& from, uint32_t position,
                                               uint32_t size, wire::StableHow stability,
                                               wire::FileAttributes* after = nullptr);
  // The same for client/library/async_io.h, with memory of the application or of a lease: at most
  // read_bytes() or write_bytes() at once. What is not registered goes inline, whatever its size.
  dat::Task<absl::StatusOr<ReadResult>> Read(const DataTarget& from, const UserPart& into);
  dat::Task<absl::StatusOr<WriteResult>> Write(const DataTarget& to, const UserPart& from);
  dat::Task<absl::StatusOr<ReadResult>> Read(const DataTarget& from, const LeasePart& into);
  dat::Task<absl::StatusOr<WriteResult>> Write(const DataTarget& to, const LeasePart& from);
  // At most append_bytes() at once: an append is atomic and never cut in pieces. Not idempotent.
  // WRITE_TOOBIG: nothing was appended, append_bytes() is less; perhaps only since this call, which
  // has found that the server reads no data from here, or met a session with smaller messages.
  dat::Task<absl::StatusOr<AppendResult>> Append(const Identity& who, const wire::FileHandle& file,
                                                 const wire::StateId& state_id,
                                                 const BufferLease& from, uint32_t position,
                                                 uint32_t size, wire::StableHow stability);
  // Makes last what was written until now: COMMIT of the range (size 0: to the end), or of the
  // whole file where unstable writes are kept (client/state/uncommitted.h); those that the server
  // has lost are written again first. An error is the server's; TakeFailure tells whether data is
  // lost. `can_wait`: nobody waits for it, as of Close.
  dat::Task<absl::StatusOr<wire::Verifier>> Commit(const Identity& who,
                                                   const wire::FileHandle& file, uint64_t offset,
                                                   uint32_t size, bool can_wait = false);
  // Why data of `file` could not be made safe and is given up, here or by another worker. Once: the
  // caller reports it to all that have the file open. Cheap while there is no failure of any file.
  absl::Status TakeFailure(const wire::FileHandle& file);
  // Asks whether `file` still exists, with the next request that is sent. If not, its uncommitted
  // data is dropped. False also if that is not known.
  dat::Task<bool> DropIfRemoved(wire::FileHandle file);
  // Before `who` changes the rights to `file`: makes safe what others have written to it. They
  // might not be let write it again, if the server lost it (WIRE R64); a file's owner is. How that
  // went, TakeFailure says.
  dat::Task<void> CommitOfOthers(const Identity& who, const wire::FileHandle& file);

  // ---- Ranges ------------------------------------------------------------------------------
  // Private procedures 1005 to 1007 (wire/messages/ranges.h): kUnimplemented from a server without
  // them, and where its file system cannot do it.

  // fallocate(2). FBIG, NOSPC, DQUOT, INVAL.
  dat::Task<absl::Status> Allocate(const Identity& who, const wire::FileHandle& file,
                                   const wire::StateId& state_id, wire::AllocateMode mode,
                                   uint64_t offset, uint64_t length);
  // The first byte at or behind `offset` that is data, or in a hole. NXIO: there is none.
  dat::Task<absl::StatusOr<uint64_t>> Seek(const Identity& who, const wire::FileHandle& file,
                                           const wire::StateId& state_id, wire::SeekWhat what,
                                           uint64_t offset);
  // Copies at the server, to its disk (COMMIT): there is nothing here to write it again from, so a
  // copy that the server lost before is made again. XDEV: it cannot between these two files.
  dat::Task<absl::StatusOr<CopyResult>> CopyRange(
      const Identity& who, const wire::FileHandle& source, const wire::StateId& source_state_id,
      uint64_t source_offset, const wire::FileHandle& file, const wire::StateId& state_id,
      uint64_t offset, uint64_t length);

  // ---- Directories -------------------------------------------------------------------------

  // The entries behind `cookie` (0: from the start, with a zero `cookieverf`), at most `max_bytes`
  // of them, into `into`. `attributes`: wanted for each entry, e.g. kStatAttributes |
  // wire::kFattrFilehandle; 0: names only. `after` (may be null): the directory's own attributes
  // behind that, or untouched. BAD_COOKIE; TOOSMALL and READDIR_NOSPC: `max_bytes` holds not one
  // entry.
  dat::Task<absl::StatusOr<DirectoryPage>> ReadDirectory(
      const Identity& who, const wire::FileHandle& directory, uint64_t cookie,
      const wire::Verifier& cookieverf, uint32_t max_bytes, uint64_t attributes, BufferLease& into,
      wire::FileAttributes* after = nullptr);

  // ---- Extended attributes and ACLs --------------------------------------------------------

  // The value of the extended attribute `name`, which is the whole Linux name ("user.x"). One value
  // that was set, never parts of two. NOENT: there is none; NOTSUPP (kUnimplemented): the server or
  // its file system has no such attributes. `can_wait`: until something else is sent, as in
  // CallBase.
  dat::Task<absl::StatusOr<std::string>> GetXattr(const Identity& who, const wire::FileHandle& file,
                                                  std::string_view name, bool can_wait = false);
  // All at once: others see the old value or the new one. `value` stays until this returns.
  // FBIG: more than kXattrMost; NOSPC: more than the file system holds.
  dat::Task<absl::Status> SetXattr(const Identity& who, const wire::FileHandle& file,
                                   std::string_view name, std::string_view value, XattrMode mode);
  // NOENT: there is none.
  dat::Task<absl::Status> RemoveXattr(const Identity& who, const wire::FileHandle& file,
                                      std::string_view name);
  // The names that the caller may see, in no order.
  dat::Task<absl::StatusOr<std::vector<std::string>>> ListXattrs(const Identity& who,
                                                                 const wire::FileHandle& file);
  // The ACL attribute. NOTSUPP (kUnimplemented): there is none, or not one like this.
  dat::Task<absl::StatusOr<std::vector<wire::Ace>>> GetAcl(const Identity& who,
                                                           const wire::FileHandle& file);
  dat::Task<absl::Status> SetAcl(const Identity& who, const wire::FileHandle& file,
                                 std::vector<wire::Ace> acl);

  // ---- The rest ----------------------------------------------------------------------------

  dat::Task<absl::Status> Null();

  // Buffers for Read, Write and ReadDirectory. `TryAcquire` first, `co_await Acquire` when empty.
  BufferPool& buffers() { return *buffers_; }
  // The largest single read, write and append: the least of the options, the server's limits and
  // a large buffer. Larger ones than a buffer are the caller's to split.
  uint32_t read_bytes() const;
  uint32_t write_bytes() const;
  uint32_t append_bytes() const;

  // Many reads and writes at a time (client/batch/batch.h).
  Batches& batches() { return *batches_; }
  // 6.5.6 CACHE_HINT: what the caller is going to do with the file, and with `count` bytes from
  // `offset` on (0: to the end). The server does as it likes.
  dat::Task<absl::Status> CacheHint(const Identity& who, const wire::FileHandle& file,
                                    uint64_t offset, uint32_t count, wire::AccessPattern pattern,
                                    uint32_t cache_hint);

  // For the statistics of dafsctl.
  WorkerReport Report() const;
  // For how long there has been no session; zero while there is one.
  absl::Duration DisconnectedFor() const;
  dat::Loop& loop() { return loop_; }
  Client& client() { return client_; }
  // Which names the server takes.
  wire::NameRule name_rule() const {
    const uint64_t extensions = client_.limits().extensions.load(std::memory_order_relaxed);
    return (extensions & wire::kExtensionByteNames) != 0 ? wire::NameRule::kBytes
                                                         : wire::NameRule::kUtf8;
  }

 private:
  dat::Task<void> AskWhetherSquashed(const Identity& who, const wire::FileHandle& root);
  friend class Batches;  // part of it, in files of its own
  Files(Client& client, dat::Loop& loop, std::unique_ptr<BufferPool> buffers);

  // As Runner has them.
  dat::Task<absl::Status> Run(const Identity* who, std::span<CallBase* const> chain);
  dat::Task<absl::Status> RunAll(const Identity* who, std::span<CallBase* const> chain,
                                 std::string_view what, size_t extra = 0);

  // read.cc, write.cc. A Part is a LeasePart or a UserPart.
  bool UseLock(wire::DafsStatus status, DataTarget& target, uint32_t size) const;
  template <class Part>
  dat::Task<absl::StatusOr<ReadResult>> ReadWhole(DataTarget target, Part whole);
  dat::Task<absl::StatusOr<ReadResult>> ReadInPieces(DataTarget target, LeasePart whole);
  template <class Part>
  dat::Task<absl::StatusOr<WriteResult>> WriteBracketed(DataTarget target, Part whole);
  template <class Part>
  dat::Task<absl::StatusOr<WriteResult>> WriteWhole(DataTarget target, Part whole);
  dat::Task<absl::StatusOr<WriteResult>> WriteParts(DataTarget target, LeasePart whole);
  dat::Task<absl::StatusOr<WriteResult>> WriteParts(DataTarget target, UserPart whole);
  dat::Task<absl::StatusOr<WriteResult>> WriteInPieces(DataTarget target, LeasePart whole);
  dat::Task<bool> KeepPart(const DataTarget& target, uint64_t offset, LeasePart part,
                           wire::Verifier verifier);
  dat::Task<bool> KeepPart(const DataTarget& target, uint64_t offset, UserPart part,
                           wire::Verifier verifier);
  uint32_t InlineWriteRoom() const;
  bool NeedsInlineWrites() const;
  bool RefusedAsDirect(const CallBase& call);

  // names.cc
  dat::Task<absl::StatusOr<Node>> MakeEmptyFile(const Identity& who,
                                                const wire::FileHandle& directory,
                                                std::string_view name,
                                                const wire::FileAttributes& attributes,
                                                wire::FileAttributes* after);
  dat::Task<absl::StatusOr<Node>> CreateNode(const Identity& who, const wire::FileHandle& directory,
                                             std::string_view name, wire::ObjectType type,
                                             const wire::SpecData& device,
                                             const wire::FileAttributes& attributes,
                                             wire::FileAttributes* after);
  dat::Task<absl::StatusOr<std::string>> ReadLinkDirect(const Identity& who,
                                                        const wire::FileHandle& link);

  // open.cc
  template <class Args>
  dat::Task<absl::StatusOr<OpenFile>> OpenByCall(const Identity& who, Call<Args>& open,
                                                 std::atomic<bool>& unknown);

  // directories.cc
  dat::Task<absl::StatusOr<DirectoryPage>> ReadDirectoryInline(
      const Identity& who, const wire::FileHandle& directory, uint64_t cookie,
      const wire::Verifier& cookieverf, uint32_t max_bytes, uint64_t attributes, BufferLease& into);

  // locks.cc
  dat::Task<void> ValidateLock(LockOwner owner);
  dat::Task<void> Abandon(Identity who, LockOwner owner, wire::LockRange range);
  dat::Task<absl::StatusOr<LockAnswer>> LockOnce(const Identity& who, const LockOwner& owner,
                                                 const wire::LockRange& range, wire::LockType type);
  dat::Task<void> CommitBeforeUnlock(const Identity& who, const wire::FileHandle& file);
  dat::Task<void> UnlockBeforeClose(const Identity& who, const wire::FileHandle& file,
                                    const wire::StateId& state_id,
                                    const std::vector<wire::LockRange>& held);
  void EndLockWaits(const absl::Status& why);

  // xattrs.cc
  dat::Task<absl::StatusOr<std::string>> GetXattrDirect(const Identity& who,
                                                        const wire::FileHandle& attribute);
  dat::Task<absl::Status> SetXattrBy(const Identity& who, const wire::FileHandle& file,
                                     std::string_view name, XattrMode mode,
                                     std::span<CallBase* const> writes);
  dat::Task<void> AbandonXattr(const Identity& who, const wire::OpenRes& open,
                               wire::ClientId client_id, std::string owner);

  // acls.cc
  dat::Task<absl::StatusOr<wire::FileAttributes>> GetAclDirect(const Identity& who,
                                                               const wire::FileHandle& file);

  Client& client_;
  dat::Loop& loop_;
  std::unique_ptr<BufferPool> buffers_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<Committer> committer_;
  std::unique_ptr<Reclaim> reclaim_;
  std::unique_ptr<Batches> batches_;
  absl::flat_hash_set<LockWait*> lock_waits_;  // those that pause
  bool said_delegation_ = false;               // in the log
  uint64_t xattrs_set_ = 0;  // numbers the opens of SetXattr: each is an owner of its own
};

}  // namespace dafs::client
