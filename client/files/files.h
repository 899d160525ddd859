// The files of an export, as one worker sees them: every operation of a mount as a coroutine over
// the worker's session. Requests that the protocol can chain take one round trip.
// Spec: chapter 4, 6.5; 4.3 (chains); WIRE 8, 9, 10.
//
// Belongs to the thread of its loop. Only connection set-up blocks that thread, for as long as the
// transport needs to find its route. Arguments taken by reference outlive the returned task. An
// operation must not be destroyed before it has ended; Shutdown ends all of them.
//
// When the session is lost, operations wait while a new one is built in the background. The
// server's Response Cache then shows which requests the server executed, and the client fetches
// their replies. The client sends the others again, a chain from its first unanswered member on
// (4.3.4, 5.2.5). After a restart of the server, the client reclaims opens before it sends any
// other request. The caller only notices the delay. A state id that Files returns names the open
// permanently (client/state/opens.h); it is not a state id of the server.
//
// Errors of all operations, in addition to those listed at each:
//   kUnimplemented     the server has no such procedure
//   kDeadlineExceeded  soft mount: the server did not answer in time
//   kCancelled         Shutdown
//   kUnknown           unknown outcome: the session was lost while a request that must not be
//                      executed twice was outstanding, and the server kept no Response Cache of it.
//                      Logged with the name of the operation. Also: a lock or share reservation was
//                      lost with the server's state. (EIO for the application.)
//   any code of StatusFromDafs, with the DAFS code as payload (wire::DafsFromStatus): the server's
//   error. Files passes STALE up, and FHEXPIRED of anything but the root. It waits and retries
//   after DELAY and GRACE.
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
  // Sends nothing yet: the first operation connects. Allocates the worker's buffer pool.
  static absl::StatusOr<std::unique_ptr<Files>> Create(Client& client, dat::Loop& loop);
  // After Shutdown, outside of the loop's callbacks.
  ~Files();
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  // ---- The mount ---------------------------------------------------------------------------

  // Tries once to build the session now. Reports why that fails (address refused, authentication,
  // ...) instead of waiting. kUnavailable: no connection; kPermissionDenied: not authenticated;
  // other codes come from the server. For the start of a mount; otherwise operations connect by
  // themselves.
  dat::Task<absl::Status> Connect();
  // GET_ROOT_HANDLE, LOOKUP of the export path, GETATTR and GET_FSATTR in one chain. Returns the
  // root of the mount. Also stores the server's limits, for all workers of the client. NOENT: no
  // such export; ACCES: not for this caller or this client.
  dat::Task<absl::StatusOr<Node>> Mount(const Identity& who);
  // DISCONNECT and close. Outstanding operations end with kCancelled.
  dat::Task<void> Disconnect();
  // Ends everything now: all operations, waiting or outstanding, end with kCancelled before this
  // returns.
  void Shutdown();

  // Coalesces requests. While it lives, and if `wanted`, requests of operations that begin are sent
  // together at the loop's next turn, not one by one. For callers that start several operations.
  // Sending is a third of the cost of a small request.
  class Gathering {
   public:
    Gathering(Files& files, bool wanted);
    ~Gathering();
    Gathering(const Gathering&) = delete;
    Gathering& operator=(const Gathering&) = delete;

   private:
    Runner& runner_;
    const bool before_;  // another Gathering may be active already
  };

  // ---- Names -------------------------------------------------------------------------------

  // Operations that change a directory fill in `after`: the attributes of that directory after the
  // change, fetched in the same chain. No attribute in it is valid if the server did not return
  // them. Null: not requested.

  dat::Task<absl::StatusOr<Node>> Lookup(const Identity& who, const wire::FileHandle& directory,
                                         std::string_view name);
  dat::Task<absl::StatusOr<Node>> LookupParent(const Identity& who,
                                               const wire::FileHandle& directory);
  // Sets `attributes` (mode, owner and the like) as it creates the directory. Returns its node.
  dat::Task<absl::StatusOr<Node>> MakeDirectory(const Identity& who,
                                                const wire::FileHandle& directory,
                                                std::string_view name,
                                                const wire::FileAttributes& attributes,
                                                wire::FileAttributes* after = nullptr);
  // NAMETOOLONG also if the target does not fit into a message.
  dat::Task<absl::StatusOr<Node>> MakeSymlink(const Identity& who,
                                              const wire::FileHandle& directory,
                                              std::string_view name, std::string_view target,
                                              wire::FileAttributes* after = nullptr);
  // BLK, CHR, SOCK, FIFO or REG. Private procedure 1003 MAKE_NODE. If the server lacks it: CREATE,
  // then SETATTR of the mode (REG: OPEN GUARDED, CLOSE).
  dat::Task<absl::StatusOr<Node>> MakeNode(const Identity& who, const wire::FileHandle& directory,
                                           std::string_view name, wire::ObjectType type,
                                           const wire::SpecData& device, uint32_t mode,
                                           wire::FileAttributes* after = nullptr);
  // Returns the attributes of `file` with its new link count.
  dat::Task<absl::StatusOr<Node>> Link(const Identity& who, const wire::FileHandle& file,
                                       const wire::FileHandle& directory, std::string_view name,
                                       wire::FileAttributes* after = nullptr);
  // Both unlink and rmdir. NOTEMPTY, NOENT.
  dat::Task<absl::Status> Remove(const Identity& who, const wire::FileHandle& directory,
                                 std::string_view name, wire::FileAttributes* after = nullptr);
  // `from_after`, `to_after`: the attributes of each directory. If both are one directory, only
  // `from_after` is filled in.
  dat::Task<absl::Status> Rename(const Identity& who, const wire::FileHandle& from_directory,
                                 std::string_view from_name, const wire::FileHandle& to_directory,
                                 std::string_view to_name,
                                 wire::FileAttributes* from_after = nullptr,
                                 wire::FileAttributes* to_after = nullptr);
  // Private procedure 1001 RENAME2. `flags`: wire::kRenameNoReplace or kRenameExchange.
  // kUnimplemented: the server lacks the procedure.
  dat::Task<absl::Status> Rename2(const Identity& who, const wire::FileHandle& from_directory,
                                  std::string_view from_name, const wire::FileHandle& to_directory,
                                  std::string_view to_name, uint32_t flags);
  dat::Task<absl::StatusOr<std::string>> ReadLink(const Identity& who,
                                                  const wire::FileHandle& link);

  // ---- Attributes --------------------------------------------------------------------------

  dat::Task<absl::StatusOr<wire::FileAttributes>> GetAttributes(const Identity& who,
                                                                const wire::FileHandle& file);
  // Sets what is valid in `attributes`, and returns the attributes after that. With nothing valid
  // it acts as a chown(2) that changes neither owner nor group. `state_id` zero: no open; the
  // server then checks a new size against other clients' shares.
  dat::Task<absl::StatusOr<wire::FileAttributes>> SetAttributes(
      const Identity& who, const wire::FileHandle& file, const wire::StateId& state_id,
      const wire::FileAttributes& attributes);
  // `access`: wire::kAccess... bits. Returns those that the caller has.
  dat::Task<absl::StatusOr<uint32_t>> Access(const Identity& who, const wire::FileHandle& file,
                                             uint32_t access);
  dat::Task<absl::StatusOr<wire::FsAttributes>> StatFs(const Identity& who,
                                                       const wire::FileHandle& file);

  // ---- Open files --------------------------------------------------------------------------

  // OPEN, SETATTR if truncation or an exclusive create needs it, GETATTR: one chain.
  // EXIST, SYMLINK, ISDIR, DENIED (a share conflict), ...
  dat::Task<absl::StatusOr<OpenFile>> Open(const Identity& who, const OpenRequest& request,
                                           wire::FileAttributes* after = nullptr);
  // Private procedure 1000 OPEN_HANDLE. If the server lacks it, returns an OpenFile with state id
  // zero: reads and writes with it are allowed but checked each time.
  dat::Task<absl::StatusOr<OpenFile>> OpenByHandle(const Identity& who,
                                                   const wire::FileHandle& file,
                                                   uint32_t share_access, std::string_view owner);
  // Creates a file without a name in the file system of `directory` (OPEN with
  // CLAIM_CREATE_UNLINKED). The last close removes it unless it was linked. Uses the directory,
  // shares, owner and attributes of `request`. kUnimplemented also if the file system does not
  // support it.
  dat::Task<absl::StatusOr<OpenFile>> OpenUnlinked(const Identity& who, const OpenRequest& request);
  // Reduces the shares of an open to a subset of its present ones (INVAL otherwise). 6.5.26.
  dat::Task<absl::Status> Downgrade(const Identity& who, const wire::FileHandle& file,
                                    const wire::StateId& state_id, uint32_t share_access,
                                    uint32_t share_deny);
  // Private procedure 1002 OPEN_EXECUTE: opens for reading if the user may read or execute the
  // file. If the server lacks it, acts as OpenByHandle.
  dat::Task<absl::StatusOr<OpenFile>> OpenForExecution(const Identity& who,
                                                       const wire::FileHandle& file,
                                                       std::string_view owner);
  // Whether the open can still be used: it was not lost with the server's state. Sends no request.
  bool IsOpen(const wire::StateId& state_id) const;
  // Releases the locks of the open first. A zero state id: does nothing, OK. `can_wait`: nothing
  // waits for the reply, so the request may be delayed up to 5 ms to share a send.
  dat::Task<absl::Status> Close(const Identity& who, const wire::FileHandle& file,
                                const wire::StateId& state_id, bool can_wait = false);

  // ---- Locks -------------------------------------------------------------------------------

  // Private procedure 1010 OPEN_OWNER: another open of `file`, for `owner`, with the access
  // (`share_access`) of its open `state_id`, whatever the present mode of the file. Returns the new
  // state id; the caller closes it like any other. kUnimplemented: the server lacks the procedure.
  dat::Task<absl::StatusOr<wire::StateId>> OpenForOwner(const Identity& who,
                                                        const wire::FileHandle& file,
                                                        const wire::StateId& state_id,
                                                        uint32_t share_access,
                                                        std::string_view owner);
  // Locks `range` for `owner`. The owner's open must allow it: a read lock needs an open for
  // reading, a write lock an open for writing, flock neither. Replaces what the owner held in the
  // range. `wait` outlives the task. With it, the request is repeated until the lock is granted,
  // the wait is cancelled, or a deadlock is found; no slot is held between two requests.
  // kUnimplemented: the server has no locks. ACCES, BAD_STATEID, EXPIRED, RESOURCE (too many
  // locks).
  dat::Task<absl::StatusOr<LockAnswer>> Lock(const Identity& who, const LockOwner& owner,
                                             const wire::LockRange& range,
                                             LockWait* wait = nullptr);
  // Call it after a silence in which leases may have expired. Checks at the server whether each
  // lock is still held (4.4.1.2). A lost lock is logged, and the next use of its file fails.
  dat::Task<void> ValidateLocks();
  // Returns a lock that conflicts with `range` for the owner of this name; nullopt: none.
  dat::Task<absl::StatusOr<std::optional<LockConflict>>> TestLock(const Identity& who,
                                                                  const wire::FileHandle& file,
                                                                  std::string_view owner,
                                                                  const wire::LockRange& range);
  // Undoes a lock that was granted after its caller had given up. Afterwards the owner holds
  // exactly `before` of `range`. Meanwhile no other owner can lock the ranges in `before`.
  dat::Task<absl::Status> GiveBack(const Identity& who, const LockOwner& owner,
                                   const wire::LockRange& range,
                                   const std::vector<wire::LockRange>& before);
  // Unlocks everything from `first` to `last`, inclusive. OK also if nothing was held.
  dat::Task<absl::Status> Unlock(const Identity& who, const LockOwner& owner, uint64_t first,
                                 uint64_t last);

  // ---- Data --------------------------------------------------------------------------------

  // Reads up to `size` bytes from byte `offset` to the start of the payload of `into`. Returns the
  // number of bytes placed, 0..size, and whether the end was reached; short only at the end. Uses
  // READ_DIRECT, or READ_INLINE for small reads, and parallel pieces beyond the server's largest
  // read. `into` holds at least `size` and stays leased until this returns. `quiet`: does not
  // update the access time, if the server supports that.
  dat::Task<absl::StatusOr<ReadResult>> Read(const Identity& who, const wire::FileHandle& file,
                                             const wire::StateId& state_id, uint64_t offset,
                                             BufferLease& into, uint32_t size, bool quiet = false);
  // Writes `size` bytes that start `position` bytes into the payload of `from`. `after` (may be
  // null): the file's attributes after the write, fetched in the same chain. They are valid only if
  // the write is small and is sent in one piece.
  dat::Task<absl::StatusOr<WriteResult>> Write(const Identity& who, const wire::FileHandle& file,
                                               const wire::StateId& state_id, uint64_t offset,
                                               const BufferLease& from, uint32_t position,
                                               uint32_t size, wire::StableHow stability,
                                               wire::FileAttributes* after = nullptr);
  // The same for client/library/async_io.h, with memory of the application or of a lease: at most
  // read_bytes() or write_bytes() in one call. Unregistered memory is transferred inline, whatever
  // its size.
  dat::Task<absl::StatusOr<ReadResult>> Read(const DataTarget& from, const UserPart& into);
  dat::Task<absl::StatusOr<WriteResult>> Write(const DataTarget& to, const UserPart& from);
  dat::Task<absl::StatusOr<ReadResult>> Read(const DataTarget& from, const LeasePart& into);
  dat::Task<absl::StatusOr<WriteResult>> Write(const DataTarget& to, const LeasePart& from);
  // At most append_bytes() in one call: an append is atomic and is never split. Not idempotent.
  // WRITE_TOOBIG: nothing was appended because `size` exceeds append_bytes(). This call may have
  // lowered that limit: it found that the server reads no data from here, or that the session has
  // smaller messages.
  dat::Task<absl::StatusOr<AppendResult>> Append(const Identity& who, const wire::FileHandle& file,
                                                 const wire::StateId& state_id,
                                                 const BufferLease& from, uint32_t position,
                                                 uint32_t size, wire::StableHow stability);
  // Makes the data written so far stable. Sends COMMIT of the range (size 0: to the end), or of the
  // whole file if the client keeps unstable writes of it (client/state/uncommitted.h). Writes that
  // the server has lost are written again first. The error is the server's; TakeFailure says
  // whether data is lost. `can_wait`: as for Close.
  dat::Task<absl::StatusOr<wire::Verifier>> Commit(const Identity& who,
                                                   const wire::FileHandle& file, uint64_t offset,
                                                   uint32_t size, bool can_wait = false);
  // Why data of `file` could not be made stable and was dropped, by this or another worker. Returns
  // each failure once: the caller reports it to every open of the file. Cheap while no file has a
  // failure.
  absl::Status TakeFailure(const wire::FileHandle& file);
  // Checks whether `file` still exists, with the next request that is sent. If it does not, drops
  // its uncommitted data. Also returns false if that is unknown.
  dat::Task<bool> DropIfRemoved(wire::FileHandle file);
  // Commits data that other users wrote to `file`, before `who` changes its permissions. If the
  // server lost that data later, those users might not be allowed to write it again (WIRE R64); the
  // file's owner is. TakeFailure returns the result.
  dat::Task<void> CommitOfOthers(const Identity& who, const wire::FileHandle& file);

  // ---- Ranges ------------------------------------------------------------------------------
  // Private procedures 1005 to 1007 (wire/messages/ranges.h). kUnimplemented if the server lacks
  // them, or if its file system does not support the operation.

  // fallocate(2). FBIG, NOSPC, DQUOT, INVAL.
  dat::Task<absl::Status> Allocate(const Identity& who, const wire::FileHandle& file,
                                   const wire::StateId& state_id, wire::AllocateMode mode,
                                   uint64_t offset, uint64_t length);
  // Returns the first offset, from `offset` on, that is data, or is in a hole. NXIO: there is none.
  dat::Task<absl::StatusOr<uint64_t>> Seek(const Identity& who, const wire::FileHandle& file,
                                           const wire::StateId& state_id, wire::SeekWhat what,
                                           uint64_t offset);
  // Copies at the server, to stable storage (COMMIT). The client has no data to write again, so it
  // repeats a copy that the server loses before COMMIT. XDEV: the server cannot copy between these
  // two files.
  dat::Task<absl::StatusOr<CopyResult>> CopyRange(
      const Identity& who, const wire::FileHandle& source, const wire::StateId& source_state_id,
      uint64_t source_offset, const wire::FileHandle& file, const wire::StateId& state_id,
      uint64_t offset, uint64_t length);

  // ---- Directories -------------------------------------------------------------------------

  // Reads the entries after `cookie` (0: from the start, with a zero `cookieverf`) into `into`, at
  // most `max_bytes`. `attributes`: requested for each entry, e.g. kStatAttributes |
  // wire::kFattrFilehandle; 0: names only. `after` (may be null): the directory's attributes after
  // the read; unchanged if there are none. BAD_COOKIE; TOOSMALL and READDIR_NOSPC: one entry needs
  // more than `max_bytes`.
  dat::Task<absl::StatusOr<DirectoryPage>> ReadDirectory(
      const Identity& who, const wire::FileHandle& directory, uint64_t cookie,
      const wire::Verifier& cookieverf, uint32_t max_bytes, uint64_t attributes, BufferLease& into,
      wire::FileAttributes* after = nullptr);

  // ---- Extended attributes and ACLs --------------------------------------------------------

  // Returns the value of the extended attribute `name`, the whole Linux name ("user.x"). The value
  // is one that was set, never parts of two. NOENT: there is none; NOTSUPP (kUnimplemented): the
  // server or its file system has no such attributes. `can_wait`: until another request is sent, as
  // in CallBase.
  dat::Task<absl::StatusOr<std::string>> GetXattr(const Identity& who, const wire::FileHandle& file,
                                                  std::string_view name, bool can_wait = false);
  // Atomic: others see the old value or the new one. `value` stays until this returns. FBIG: larger
  // than kXattrMost; NOSPC: larger than the file system allows.
  dat::Task<absl::Status> SetXattr(const Identity& who, const wire::FileHandle& file,
                                   std::string_view name, std::string_view value, XattrMode mode);
  // NOENT: there is none.
  dat::Task<absl::Status> RemoveXattr(const Identity& who, const wire::FileHandle& file,
                                      std::string_view name);
  // Returns the names that the caller may see, in no order.
  dat::Task<absl::StatusOr<std::vector<std::string>>> ListXattrs(const Identity& who,
                                                                 const wire::FileHandle& file);
  // The ACL attribute. NOTSUPP (kUnimplemented): there is none, or not of this kind.
  dat::Task<absl::StatusOr<std::vector<wire::Ace>>> GetAcl(const Identity& who,
                                                           const wire::FileHandle& file);
  dat::Task<absl::Status> SetAcl(const Identity& who, const wire::FileHandle& file,
                                 std::vector<wire::Ace> acl);

  // ---- The rest ----------------------------------------------------------------------------

  dat::Task<absl::Status> Null();

  // Buffers for Read, Write and ReadDirectory. `TryAcquire` first, `co_await Acquire` when empty.
  BufferPool& buffers() { return *buffers_; }
  // The size limits of one read, write and append: the least of the options, the server's limits
  // and a large buffer. The caller splits requests that are larger than a buffer.
  uint32_t read_bytes() const;
  uint32_t write_bytes() const;
  uint32_t append_bytes() const;

  // Many reads and writes in one request (client/batch/batch.h).
  Batches& batches() { return *batches_; }
  // 6.5.6 CACHE_HINT: how the caller will use the file, and `count` bytes of it from `offset` on
  // (0: to the end). The server need not follow it.
  dat::Task<absl::Status> CacheHint(const Identity& who, const wire::FileHandle& file,
                                    uint64_t offset, uint32_t count, wire::AccessPattern pattern,
                                    uint32_t cache_hint);

  // For the statistics of dafsctl.
  WorkerReport Report() const;
  // How long there has been no session; zero while there is one.
  absl::Duration DisconnectedFor() const;
  dat::Loop& loop() { return loop_; }
  Client& client() { return client_; }
  // Which names the server accepts.
  wire::NameRule name_rule() const {
    const uint64_t extensions = client_.limits().extensions.load(std::memory_order_relaxed);
    return (extensions & wire::kExtensionByteNames) != 0 ? wire::NameRule::kBytes
                                                         : wire::NameRule::kUtf8;
  }

 private:
  dat::Task<void> AskWhetherSquashed(const Identity& who, const wire::FileHandle& root);
  friend class Batches;  // Batches is part of Files, in files of its own
  Files(Client& client, dat::Loop& loop, std::unique_ptr<BufferPool> buffers);

  // As in Runner.
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
  absl::flat_hash_set<LockWait*> lock_waits_;  // those that pause between two requests
  bool said_delegation_ = false;               // logged already
  uint64_t xattrs_set_ = 0;  // numbers the opens of SetXattr: each is its own owner
};

}  // namespace dafs::client
