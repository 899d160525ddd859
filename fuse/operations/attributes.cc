// Attributes: GETATTR, STATX, SETATTR, ACCESS, STATFS. Spec: 6.5.2, 6.5.13, 6.5.15, 6.5.35.
#include "fuse/kernel/attributes.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "client/session/report.h"
#include "fuse/kernel/errno.h"
#include "fuse/operations/operations.h"
#include "fuse/request/caller_call.h"

namespace dafs::fuse {
namespace {

// umount(8) requests the attributes of the root, then STATFS, and must end within a second even if
// the server is unreachable. These two requests are answered with the server's last reply:
// - after kAskAfter if there is no session;
// - after kSilentAfter more if the server does not answer a NULL either, which needs no disk;
// - after kWaitForAnswer more if the server answers other requests, but not this one;
// - after kGlance if the server was already silent when the request arrived.
constexpr absl::Duration kAskAfter = absl::Milliseconds(300);
constexpr absl::Duration kSilentAfter = absl::Milliseconds(400);
constexpr absl::Duration kWaitForAnswer = absl::Seconds(3);
constexpr absl::Duration kGlance = absl::Milliseconds(50);

fuse_statfs_out KernelStatfs(const wire::FsAttributes& a) {
  fuse_statfs_out out = {};
  // The unit is a page, as df(1) expects, not the 512 bytes of st_blocks and du(1).
  constexpr uint32_t kBlock = 4096;
  out.st.bsize = kBlock;
  out.st.frsize = kBlock;
  out.st.blocks = a.space_total / kBlock;
  out.st.bfree = a.space_free / kBlock;
  out.st.bavail = a.space_available / kBlock;
  out.st.files = a.files_total;
  out.st.ffree = a.files_free;
  out.st.namelen = a.has(wire::kFsattrMaxName) ? std::min(a.max_name, 255u) : 255u;
  return out;
}

}  // namespace

// A race between the server's reply and a timer; the first resumes the call. Shared by the call,
// the request to the server and the timer.
struct Operations::Race {
  dat::Pending<bool> first;
  bool answered = false;  // the server has replied
  absl::Status status;    // of that reply
  dat::Loop::TimerId timer = 0;
  void Finish() {
    if (!first.is_set()) first.Set(true);
  }
};

// Checks with a NULL whether the server answers at all. Only one NULL is outstanding at a time.
dat::Task<void> Operations::ProbeServer() {
  if (std::exchange(probing_, true)) co_return;
  absl::Status ignored = co_await files_.Null();
  probing_ = false;
  if (std::exchange(silent_, false)) state_.silent_workers.fetch_sub(1, std::memory_order_relaxed);
}

void Operations::NoteSilence() {
  if (!std::exchange(silent_, true)) state_.silent_workers.fetch_add(1, std::memory_order_relaxed);
}

void Operations::GiveUpLater(std::shared_ptr<Race> race) {
  const bool was_silent = state_.silent_workers.load(std::memory_order_relaxed) > 0 ||
                          files_.DisconnectedFor() >= kAskAfter;
  race->timer = files_.loop().RunAfter(was_silent ? kGlance : kAskAfter, [this, race, was_silent] {
    if (was_silent || files_.DisconnectedFor() > absl::ZeroDuration()) {
      race->Finish();
      return;
    }
    dat::Start(ProbeServer());
    race->timer = files_.loop().RunAfter(kSilentAfter, [this, race] {
      if (probing_) {
        NoteSilence();
        race->Finish();
      } else {
        race->timer = files_.loop().RunAfter(kWaitForAnswer, [race] { race->Finish(); });
      }
    });
  });
}

dat::Task<void> Operations::RefreshRoot(std::shared_ptr<Race> race, wire::FileHandle handle,
                                        Caller who) {
  absl::StatusOr<wire::FileAttributes> attributes = co_await files_.GetAttributes(*who, handle);
  if (attributes.ok()) state_.root.Set(*attributes);
  race->answered = true;
  race->status = attributes.status();
  race->Finish();
}

dat::Task<void> Operations::GetattrOfRoot(Call& call, InodeView root) {
  Caller who = CallerOf(call);
  auto race = std::make_shared<Race>();
  dat::Start(RefreshRoot(race, root.handle, who));
  GiveUpLater(race);
  co_await race->first;
  files_.loop().Cancel(race->timer);
  if (!race->status.ok()) {
    call.ReplyStatus(race->status);
  } else if (race->answered) {
    ReplyAttributes(call, call.nodeid(), state_.root.Get());
  } else {
    TellAttributes(call, state_.root.Get(), absl::ZeroDuration());  // may be outdated
  }
}

// GETATTR and STATX. STATX also returns the time of birth; both requests begin with the same
// fields.
dat::Task<void> Operations::Getattr(Call& call) {
  RequestReader in = call.reader();
  auto getattr = in.Take<fuse_getattr_in>();
  std::optional<InodeView> node = NodeOf(call, in);
  if (!node) co_return;
  if (ReplyFresh(call, *node)) co_return;
  if (call.nodeid() == kRootNode) {
    co_await GetattrOfRoot(call, *node);
    co_return;
  }
  // fstat(2) of an open file uses the rights of the opener, so it works after these were revoked.
  Caller who;
  if (getattr.getattr_flags & FUSE_GETATTR_FH) {
    if (std::shared_ptr<OpenState> open = state_.open_files.Find(getattr.fh)) who = open->opener;
  }
  if (who == nullptr) who = CallerOf(call);
  absl::StatusOr<wire::FileAttributes> attributes =
      co_await files_.GetAttributes(*who, node->handle);
  if (attributes.ok()) {
    ReplyAttributes(call, call.nodeid(), *attributes);
  } else if (wire::DafsFromStatus(attributes.status()) != wire::DafsStatus::kStale ||
             !ReplyGone(call)) {
    NoteGone(call.nodeid(), attributes.status());
    call.ReplyStatus(attributes.status());
  }
}

// Answers for a removed directory of which a program still has a descriptor: its last attributes
// with a link count of 0. If the kernel still caches a path to it, it revalidates that soon.
// Returns false if no attributes are known.
bool Operations::ReplyGone(Call& call) {
  std::optional<wire::FileAttributes> last = state_.inodes.LastToldOfDirectory(call.nodeid());
  if (!last.has_value()) return false;
  last->num_links = 0;
  TellAttributes(call, *last, absl::ZeroDuration());
  return true;
}

// Handles a SETATTR that sets nothing and that the server refused to `who`. There are two cases:
// - chown(2) that changes neither owner nor group. It is refused unless the caller owns the file,
//   if the file has set-id bits.
// - The kernel reports that a write clears the set-id bits. Any writer may do that, and the server
//   clears the bits for writers that may not keep them. But the process that writes may not be the
//   one that opened the file, so the request is repeated with the opener's identity.
dat::Task<absl::StatusOr<wire::FileAttributes>> Operations::TakeSetIdBits(const Call& call,
                                                                          Caller who,
                                                                          InodeView node,
                                                                          absl::Status refused) {
  std::shared_ptr<OpenState> writer = state_.open_files.FindIf([&](const OpenState& open) {
    return open.nodeid == node.nodeid && (ShareOf(open.flags) & wire::kShareWrite) != 0;
  });
  if (writer == nullptr || ChangesOwner(call.header().pid, callers_.proc()).value_or(false))
    co_return refused;
  const wire::FileAttributes nothing;
  const wire::StateId no_open;
  absl::StatusOr<wire::FileAttributes> attributes =
      co_await files_.SetAttributes(*writer->opener, node.handle, no_open, nothing);
  if (ErrnoFromStatus(attributes.status()) == EPERM) {
    attributes = co_await files_.GetAttributes(*who, node.handle);
  }
  co_return attributes;
}

// A change of size without a descriptor: truncate(2), or open(2) with O_TRUNC after its OPEN. The
// request still needs the state id of an open (6.5.35): one of the caller's if there is one,
// otherwise a new one. Without a state id if the server cannot open the file by its handle.
dat::Task<absl::StatusOr<wire::FileAttributes>> Operations::SetSize(Caller who, InodeView node,
                                                                    wire::FileAttributes set) {
  std::shared_ptr<OpenState> open = state_.open_files.FindIf([&](const OpenState& one) {
    return one.nodeid == node.nodeid && (ShareOf(one.flags) & wire::kShareWrite) != 0 &&
           !one.state_id.is_zero() && *one.opener == *who;
  });
  if (open != nullptr) {
    absl::StatusOr<wire::FileAttributes> attributes =
        co_await files_.SetAttributes(*who, node.handle, open->state_id, set);
    // It may have been closed meanwhile.
    if (!absl::IsAborted(attributes.status())) co_return attributes;
  }
  dat::Task<absl::StatusOr<client::OpenFile>> opening =
      OpenNode(*who, node, O_WRONLY, state_.NewOwner());
  absl::StatusOr<client::OpenFile> file = co_await opening;
  if (!file.ok()) co_return file.status();
  absl::StatusOr<wire::FileAttributes> attributes =
      co_await files_.SetAttributes(*who, node.handle, file->state_id, set);
  absl::Status closed =
      co_await files_.Close(*who, file->handle, file->state_id, /*can_wait=*/true);
  closed.IgnoreError();  // the open ends with the lease
  co_return attributes;
}

// Called before a change of mode, owner, group or ACL. Commits data that might have to be written
// again, while its writers are still allowed to write it.
dat::Task<void> Operations::BeforeRightsChange(const client::Identity& who, const InodeView& node) {
  dat::Task<void> committing = files_.CommitOfOthers(who, node.handle);
  co_await committing;
}

dat::Task<void> Operations::Setattr(Call& call) {
  RequestReader in = call.reader();
  auto setattr = in.Take<fuse_setattr_in>();
  std::optional<InodeView> node = NodeOf(call, in);
  if (!node) co_return;
  Caller who;
  wire::StateId state_id;
  // ftruncate(2) has the rights of its descriptor, even if the mode has changed.
  bool by_open = (setattr.valid & FATTR_SIZE) == 0;
  if ((setattr.valid & FATTR_FH) && (setattr.valid & FATTR_SIZE)) {
    if (std::shared_ptr<OpenState> open = state_.open_files.Find(setattr.fh)) {
      state_id = open->state_id;
      who = open->opener;
      by_open = true;
    }
  }
  if (who == nullptr) who = CallerOf(call);
  wire::FileAttributes set = AttributesToSet(setattr);
  if ((setattr.valid & (FATTR_MODE | FATTR_UID | FATTR_GID)) != 0) {
    dat::Task<void> preparing = BeforeRightsChange(*who, *node);
    co_await preparing;
  }
  if ((setattr.valid & FATTR_UID) != 0) state_.inodes.NoteOwnerChange(call.nodeid());
  Touch(call.nodeid());
  dat::Task<absl::StatusOr<wire::FileAttributes>> setting =
      by_open ? files_.SetAttributes(*who, node->handle, state_id, set) : SetSize(who, *node, set);
  absl::StatusOr<wire::FileAttributes> attributes = co_await setting;
  // If another user truncates through root's descriptor, the set-id bits must be cleared.
  if (attributes.ok() && (attributes->mode & (S_ISUID | S_ISGID)) != 0 && !state_id.is_zero() &&
      who->uid == 0 && call.header().uid != 0) {
    const wire::FileAttributes nothing;
    const wire::StateId no_open;
    attributes = co_await files_.SetAttributes(*who, node->handle, no_open, nothing);
  }
  if (set.valid == 0 && ErrnoFromStatus(attributes.status()) == EPERM) {
    dat::Task<absl::StatusOr<wire::FileAttributes>> taking =
        TakeSetIdBits(call, who, *node, attributes.status());
    attributes = co_await taking;
  }
  // Again, because an OPEN that was answered in between may have returned the previous owner.
  if ((setattr.valid & FATTR_UID) != 0) state_.inodes.NoteOwnerChange(call.nodeid());
  Touch(call.nodeid());
  if (attributes.ok()) {
    ReplyAttributes(call, call.nodeid(), *attributes);
  } else {
    call.ReplyStatus(attributes.status());
  }
}

dat::Task<void> Operations::Access(Call& call) {
  RequestReader in = call.reader();
  auto access = in.Take<fuse_access_in>();
  std::optional<InodeView> node = NodeOf(call, in);
  if (!node) co_return;
  Caller who = CallerOf(call);
  uint32_t wanted = AccessFromMask(access.mask, node->type == wire::ObjectType::kDir);
  absl::StatusOr<uint32_t> granted = co_await files_.Access(*who, node->handle, wanted);
  if (!granted.ok()) {
    call.ReplyStatus(granted.status());
  } else {
    call.ReplyErrno((*granted & wanted) == wanted ? 0 : EACCES);
  }
}

dat::Task<void> Operations::RefreshStatfs(std::shared_ptr<Race> race, wire::FileHandle handle,
                                          Caller who) {
  absl::StatusOr<wire::FsAttributes> attributes = co_await files_.StatFs(*who, handle);
  if (attributes.ok()) state_.statfs.Set(*attributes);
  race->answered = true;
  race->status = attributes.status();
  race->Finish();
}

dat::Task<void> Operations::Statfs(Call& call) {
  std::optional<InodeView> node = NodeOf(call);
  if (!node) co_return;
  Caller who = CallerOf(call);
  auto race = std::make_shared<Race>();
  dat::Start(RefreshStatfs(race, node->handle, who));
  if (state_.statfs.Get().valid != 0) GiveUpLater(race);
  co_await race->first;
  files_.loop().Cancel(race->timer);
  if (!race->status.ok()) {
    call.ReplyStatus(race->status);
    co_return;
  }
  fuse_statfs_out out = KernelStatfs(state_.statfs.Get());
  call.Reply({AsBytes(out)});
}

}  // namespace dafs::fuse
