// The kernel's requests, each a coroutine over the client library. It translates the nodes and
// handles of FUSE to the filehandles and state ids of DAFS.
// Belongs to one worker's thread. MountState is the state that workers share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "client/files/files.h"
#include "fuse/cache/listing_habit.h"
#include "fuse/cache/listing_walk.h"
#include "fuse/cache/questions_out.h"
#include "fuse/cache/stat_habit.h"
#include "fuse/files/commit_queue.h"
#include "fuse/files/lock_owners.h"
#include "fuse/files/write_streams.h"
#include "fuse/kernel/channel.h"
#include "fuse/kernel/protocol.h"
#include "fuse/operations/mount_state.h"
#include "fuse/request/call.h"
#include "fuse/request/caller_call.h"
#include "runtime/task.h"

namespace dafs::fuse {

class DirectoryAnswer;

class Operations {
 public:
  Operations(MountState& state, client::Files& files, KernelChannel& channel)
      : state_(state),
        files_(files),
        channel_(channel),
        commits_(files),
        streams_(files.buffers()) {}
  ~Operations() { files_.loop().Cancel(idle_timer_); }
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  // Answers `call` according to its opcode. An unknown opcode fails with ENOSYS, which the kernel
  // remembers. Calls `done` when the call has ended, which may be after its answer: a RELEASE is
  // answered before its CLOSE, for example.
  dat::Task<void> Serve(std::unique_ptr<Call> call, std::function<void()> done);

  // The caller of `call` is being killed. Called before the call is answered early, while the
  // server may still execute it. Later requests for the files that it changes wait until it ends.
  void EndsEarly(Call& call);

  // Called when the worker ends. Commits what was written, then calls `done`.
  void CommitAll(std::function<void()> done) {
    CloseAll(state_.idle_opens.Stop());
    commits_.CommitAll(std::move(done));
  }
  bool AllCommitted() const { return commits_.empty(); }
  // Called after the loop has ended and after Files::Shutdown. Ends the calls that wait for pending
  // writes of other workers.
  void Shutdown();

  // FORGET and BATCH_FORGET. They have no answer.
  void Forget(uint64_t nodeid, RequestReader in);
  void BatchForget(RequestReader in);

 private:
  using Op = dat::Task<void> (Operations::*)(Call& call);
  static Op OperationOf(uint32_t opcode);
  void ForgetNode(uint64_t nodeid, uint64_t count);

  // names.cc
  dat::Task<void> Lookup(Call& call);
  dat::Task<void> Readlink(Call& call);
  dat::Task<void> Mknod(Call& call);
  dat::Task<void> Mkdir(Call& call);
  dat::Task<void> Unlink(Call& call);
  dat::Task<void> Symlink(Call& call);
  dat::Task<void> Rename(Call& call);
  dat::Task<void> Rename2(Call& call);
  dat::Task<void> Link(Call& call);
  dat::Task<void> RenameTo(Call& call, uint64_t new_directory, std::string_view old_name,
                           std::string_view new_name, uint32_t flags);

  // attributes.cc
  dat::Task<void> Getattr(Call& call);
  dat::Task<void> Setattr(Call& call);
  dat::Task<void> Access(Call& call);
  dat::Task<void> Statfs(Call& call);

  // open.cc
  dat::Task<void> Open(Call& call);
  dat::Task<void> Create(Call& call);
  dat::Task<void> Tmpfile(Call& call);
  dat::Task<void> Release(Call& call);

  // data.cc
  dat::Task<void> Read(Call& call);
  dat::Task<void> Write(Call& call);
  dat::Task<void> Flush(Call& call);
  dat::Task<void> Fsync(Call& call);

  // locks.cc
  dat::Task<void> Getlk(Call& call);
  dat::Task<void> Setlk(Call& call);

  // ranges.cc
  dat::Task<void> Fallocate(Call& call);
  dat::Task<void> Lseek(Call& call);
  dat::Task<void> CopyFileRange(Call& call);

  // directory.cc
  dat::Task<void> Opendir(Call& call);
  dat::Task<void> Readdir(Call& call);
  dat::Task<void> Releasedir(Call& call);
  dat::Task<void> Fsyncdir(Call& call);

  // xattrs.cc
  dat::Task<void> Getxattr(Call& call);
  dat::Task<void> Setxattr(Call& call);
  dat::Task<void> Listxattr(Call& call);
  dat::Task<void> Removexattr(Call& call);
  dat::Task<absl::StatusOr<std::string>> GetValue(const client::Identity& who,
                                                  const wire::FileHandle& file,
                                                  std::string_view name);
  dat::Task<void> LookForUsual(const client::Identity& who, const InodeView& node);
  bool IsNotSupported(std::string_view name) const;
  int ErrnoOfAbsent(std::optional<Absent> usual) const;
  bool WantsAhead() const;
  void LookAhead(const std::shared_ptr<const client::Identity>& who, Absent attribute);
  dat::Task<void> LookAheadAt(std::shared_ptr<const client::Identity> who, InodeView node);
  dat::Task<absl::Status> SetNfs4Acl(const client::Identity& who, const InodeView& node,
                                     std::vector<wire::Ace> acl);
  // Returns the mode with which to create an object in `directory` for a caller with this umask.
  dat::Task<uint32_t> ModeOfNew(const client::Identity& who, const InodeView& directory,
                                uint32_t mode, uint32_t umask);
  void NoteNew(uint64_t nodeid, uint64_t directory, absl::Time made);

  // Helpers of all these files.
  using Caller = std::shared_ptr<const client::Identity>;
  // Returns the caller's identity. Its groups are current, unless the request only looks: then
  // Groups::kRecent.
  Caller CallerOf(const Call& call);
  // Reads the groups of `who` again. Returns true if they changed, so that a retry may succeed.
  bool TakeNewGroups(const Call& call, Caller& who);
  dat::Task<absl::StatusOr<wire::FileAttributes>> SetSize(Caller who, InodeView node,
                                                          wire::FileAttributes set);
  dat::Task<absl::StatusOr<wire::FileAttributes>> TakeSetIdBits(const Call& call, Caller who,
                                                                InodeView node,
                                                                absl::Status refused);
  // Returns the node of a request. If it is unknown, answers ESTALE and returns nullopt.
  std::optional<InodeView> NodeOf(Call& call) { return NodeOf(call, call.nodeid()); }
  std::optional<InodeView> NodeOf(Call& call, uint64_t nodeid);
  // Likewise, after all of the request was taken from `in`. A malformed request is answered with an
  // error, too.
  std::optional<InodeView> NodeOf(Call& call, const RequestReader& in);
  // Counts a lookup of `node` at `place`, and returns the entry for the kernel. `asked` is at or
  // before the time of the request whose reply described `node`. If the kernel does not accept the
  // answer, the caller must undo the lookup count with Forget.
  fuse_entry_out Entry(const Call& call, const client::Node& node, const Place& place,
                       absl::Time asked);
  // Answers a LOOKUP of a special file (a link, a FIFO, ...) from the cache if its system call only
  // looks. Returns false if the call was not answered.
  bool ReplyKnownLink(Call& call, const Place& place);
  // If `status` says that the server no longer has the node, cached links to it and the kernel's
  // attributes of it are no longer used.
  void NoteGone(uint64_t nodeid, const absl::Status& status);
  // Answers with an entry, or the error. Returns the node id that the kernel accepted; 0: none.
  uint64_t ReplyEntry(Call& call, const absl::StatusOr<client::Node>& node, const Place& place);
  // Likewise for a node that was just created.
  void ReplyNewEntry(Call& call, const absl::StatusOr<client::Node>& node, const Place& place);
  void ReplyAttributes(Call& call, uint64_t nodeid, const wire::FileAttributes& attributes);
  // Answers a GETATTR, STATX or SETATTR. Returns false if the kernel did not accept the answer.
  bool TellAttributes(Call& call, const wire::FileAttributes& attributes, absl::Duration valid_for);
  absl::Duration Validity(const Call& call, uint64_t nodeid,
                          const wire::FileAttributes& attributes);
  // Invalidates the kernel's attributes of the node, so that it requests them again.
  void ForgetAttributes(uint64_t nodeid);
  void Touch(uint64_t nodeid);
  // A change of a file's data begins or has ended. Called before the caller is answered. If the
  // kernel may show set-id bits that the change removes, its attributes are invalidated.
  void TouchData(uint64_t nodeid);
  InodeTable::Change BeginWrite(uint64_t nodeid);
  void EndWrite(WritePiece& piece, wire::FileAttributes after);
  // Answers with prefetched attributes, which came with a change by this mount or with an open.
  // Returns false if there are none that are still valid.
  bool ReplyFresh(Call& call, const InodeView& node);
  bool ReplyGone(Call& call);
  class DirectoryChange;  // fuse/operations/directory_change.h
  bool WantsDirectoryAfterChange();

  dat::Task<absl::StatusOr<client::OpenFile>> OpenToAppend(const client::Identity& who,
                                                           const InodeView& node, uint32_t flags,
                                                           absl::Status refused);
  dat::Task<absl::StatusOr<client::OpenFile>> OpenNode(const client::Identity& who,
                                                       const InodeView& node, uint32_t flags,
                                                       std::string owner);
  // A running lookup of names. Shared by the call that waits for it and the coroutine that does it.
  struct Looking {
    dat::Pending<bool> done;
  };
  std::shared_ptr<Looking> LookAtLikelyOld(const Caller& who, const InodeView& node);
  dat::Task<void> LookAtNames(Caller who, InodeView node, Places places,
                              std::optional<uint64_t> change, std::shared_ptr<Looking> looking);
  dat::Task<bool> HasLostName(const Caller& who, const InodeView& node,
                              const wire::FileAttributes& attributes);
  // Adds an open file to the table. Returns the answer for the kernel.
  fuse_open_out TakeOpen(const client::OpenFile& file, uint64_t nodeid, uint32_t flags, Caller who,
                         bool keep_cache);
  // Answers CREATE and TMPFILE.
  dat::Task<void> ReplyCreated(Call& call, const client::OpenFile& file, Place place,
                               uint32_t flags, Caller who);
  dat::Task<std::optional<client::OpenFile>> OpenAgain(uint64_t nodeid, const client::Identity& who,
                                                       uint32_t flags);
  dat::Task<void> CloseState(std::shared_ptr<OpenState> open);
  void CloseAll(std::vector<IdleOpens::Open> opens);
  void CloseIdleLater();

  // An outstanding write: how many bytes the server has accepted, from the first byte on, and why
  // it did not accept all.
  struct Transfer {
    uint64_t offset = 0;
    uint32_t size = 0;
    wire::StableHow stability = wire::StableHow::kUnstable;
    uint32_t done = 0;
    absl::Status failed;
    bool wants_after = false;
    wire::FileAttributes after;  // of the file after the write, if requested and returned
  };
  dat::Task<Transfer> Carry(WritePiece& piece, wire::StableHow stability, bool appends,
                            bool may_ask);
  void ReplyTransfer(Call& call, const Transfer& transfer, bool from_cache);
  dat::Task<void> WriteData(const OpenState& open, const client::BufferLease& lease,
                            Transfer& transfer);
  dat::Task<void> AppendData(const OpenState& open, const client::BufferLease& lease,
                             Transfer& transfer);
  void NoteGivenUp(const OpenState& open);
  dat::Task<absl::Status> ReadRest(const OpenState& open, uint64_t offset,
                                   client::BufferLease& lease, uint32_t size, bool quiet,
                                   std::string& data);

  // write_behind.cc
  static bool WaitsForWrites(uint32_t opcode);
  struct Changed;
  static Changed ChangedBy(const Call& call);
  bool GoesBehind(const fuse_write_in& write, const OpenState& open) const;
  dat::Task<void> Settled(uint64_t nodeid);
  dat::Task<void> BeforeRightsChange(const client::Identity& who, const InodeView& node);
  dat::Task<void> WriteBehind(Call& call, std::shared_ptr<OpenState> open, uint64_t offset,
                              uint32_t size);
  dat::Task<void> SendPieces(WritePiece piece, Call* waits);
  void ReplyWritten(Call& call, uint32_t size);
  void FailLate(const WritePiece& piece, const Transfer& transfer);
  std::optional<absl::Time> BeforeAsking() const;
  dat::Task<void> LookAgain(const client::Identity& who, std::optional<absl::Time> before,
                            absl::StatusOr<client::Node>& node);

  struct LockRequest;
  dat::Task<void> SetFlock(Call& call, const LockRequest& request);
  dat::Task<void> SetRecordLock(Call& call, const LockRequest& request);
  dat::Task<void> UnlockRecords(Call& call, const LockRequest& request);
  dat::Task<absl::StatusOr<client::LockAnswer>> TakeLock(Call& call, const LockRequest& request,
                                                         const client::LockOwner& owner);
  dat::Task<bool> ReplyLock(Call& call, const OpenState& open,
                            const absl::StatusOr<client::LockAnswer>& answer);
  dat::Task<void> ShowWhatIsUnderLock(Call& call, const OpenState& open,
                                      const wire::FileAttributes& attributes);
  dat::Task<absl::StatusOr<client::LockOwner>> OpenForLocks(const LockRequest& request,
                                                            LockOwnerRef owner);
  dat::Task<void> LeaveOwner(LockOwnerRef owner);
  dat::Task<void> CloseOwner(LockOwnerRef owner);
  dat::Task<void> EndOwner(LockOwners::Ended ended);

  // Requests that are answered with the last reply if the server is unreachable.
  struct Race;
  dat::Task<void> ProbeServer();
  void NoteSilence();
  void GiveUpLater(std::shared_ptr<Race> race);
  dat::Task<void> RefreshStatfs(std::shared_ptr<Race> race, wire::FileHandle handle, Caller who);
  dat::Task<void> RefreshRoot(std::shared_ptr<Race> race, wire::FileHandle handle, Caller who);
  dat::Task<void> GetattrOfRoot(Call& call, InodeView root);

  dat::Task<absl::StatusOr<std::shared_ptr<const DirectoryChunk>>> ReadChunk(
      std::shared_ptr<DirectoryState> directory, uint64_t cookie, bool attributes,
      wire::FileAttributes* after = nullptr);
  void AddDots(DirectoryAnswer& answer, const DirectoryState& directory, uint64_t offset,
               bool plus);
  void LookElsewhere(Call& call) { LookElsewhere(call, call.nodeid()); }
  void LookElsewhere(Call& call, uint64_t nodeid);
  bool AddEntry(const Call& call, DirectoryAnswer& answer, const DirectoryState& directory,
                const DirectoryChunk& chunk, const DirectoryChunk::Entry& entry, bool plus);

  MountState& state_;
  client::Files& files_;
  KernelChannel& channel_;
  CommitQueue commits_;
  WriteStreams streams_;
  // A call that waits for pending writes. Shared by this object, the call and the table.
  struct Settling {
    dat::Pending<bool> done;
    void Finish() {
      if (!done.is_set()) done.Set(true);
    }
  };
  absl::flat_hash_set<std::shared_ptr<Settling>> settling_;
  bool closed_ = false;
  bool probing_ = false;  // a NULL of ProbeServer is outstanding
  bool silent_ = false;   // that NULL was not answered in time; counted in state_.silent_workers
  dat::Loop::TimerId idle_timer_ = 0;  // 0: not set
  StatHabit stat_habit_;               // for files that were written
  StatHabit directory_stat_habit_;     // for directories in which a name was changed
  StatHabit& HabitOf(const InodeView& node) {
    return node.type == wire::ObjectType::kDir ? directory_stat_habit_ : stat_habit_;
  }
  ListingHabit listing_habit_;
  ListingWalk walk_;
  QuestionsOut asked_ahead_;
  CallerCalls callers_;
  // The handle of the open directory that was listed last, and the last node of that answer.
  uint64_t listed_in_ = 0;
  uint64_t listed_last_ = 0;
};

}  // namespace dafs::fuse
