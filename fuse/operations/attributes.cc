#include "fuse/operations/attributes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <optional>

#include "fuse/kernel/attributes.h"
#include "fuse/kernel/errno.h"
#include "fuse/operations/shared/attribute_change.h"
#include "fuse/request/caller_call.h"
#include "runtime/loop/loop_wait.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

// A GETATTR, as long as it has no answer.
class Question {
 public:
  Question(MountState& state, AttributeReplies& replies, uint64_t nodeid)
      : state_(state), replies_(replies), nodeid_(nodeid) {
    state_.left.outdated.Asked(nodeid_);
  }
  ~Question() {
    if (state_.left.outdated.Answered(nodeid_, has_answer_)) replies_.Forget(nodeid_);
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;
  void HasAnswer() { has_answer_ = true; }

 private:
  MountState& state_;
  AttributeReplies& replies_;
  const uint64_t nodeid_;
  bool has_answer_ = false;
};

}  // namespace

// GETATTR and STATX. STATX also returns the time of birth; both requests begin with the same
// fields.
Task<void> AttributeOperations::Getattr(Call& call) {
  RequestReader in = call.reader();
  auto getattr = in.Take<fuse_getattr_in>();
  std::optional<InodeView> node = NodeOf(state_, call, in);
  if (!node) co_return;
  Question question(state_, context_.attributes, node->nodeid);
  if (context_.attributes.ReplyPrefetched(call, *node)) {
    question.HasAnswer();
    co_return;
  }
  if (call.nodeid() == kRootNode) {
    co_await root_.Getattr(call, *node);
    co_return;
  }
  // fstat(2) of an open file uses the rights of the opener, so it works after these were revoked.
  CallerIdentity user;
  if (getattr.getattr_flags & FUSE_GETATTR_FH) {
    if (std::shared_ptr<OpenState> open = state_.open_files.Find(getattr.fh)) user = open->opener;
  }
  if (user == nullptr) user = CallerOf(state_, call);
  absl::StatusOr<client::Attributes> attributes =
      co_await files_.Of(*user).attributes().GetAttributes(*user, node->handle);
  if (attributes.ok()) {
    context_.attributes.Reply(call, call.nodeid(), *attributes);
    question.HasAnswer();
  } else if (wire::DafsFromStatus(attributes.status()) != wire::DafsStatus::kStale ||
             !ReplyGone(call)) {
    NoteGone(state_, call.nodeid(), attributes.status());
    call.ReplyStatus(attributes.status());
  }
}

// Answers for a removed directory of which a program still has a descriptor: its last attributes
// with a link count of 0. If the kernel still caches a path to it, it revalidates that soon.
// Returns false if no attributes are known.
bool AttributeOperations::ReplyGone(Call& call) {
  std::optional<wire::FileAttributes> last =
      state_.caches.attributes.LastOfDirectory(call.nodeid());
  if (!last.has_value()) return false;
  last->num_links = 0;
  context_.attributes.ReplyValidFor(call, *last, absl::ZeroDuration());
  return true;
}

// Handles a SETATTR that sets nothing and that the server refused to `user`. There are two cases:
// - chown(2) that changes neither owner nor group. It is refused unless the caller owns the file,
//   if the file has set-id bits.
// - The kernel reports that a write clears the set-id bits. Any writer may do that, and the server
//   clears the bits for writers that may not keep them. But the process that writes may not be the
//   one that opened the file, so the request is repeated with the opener's identity.
Task<AttributeOperations::Attributes> AttributeOperations::TakeSetIdBits(const Call& call,
                                                                         CallerIdentity user,
                                                                         InodeView node,
                                                                         absl::Status refused) {
  std::shared_ptr<OpenState> writer = state_.open_files.FindIf([&](const OpenState& open) {
    return open.nodeid == node.nodeid && (ShareOf(open.flags) & wire::kShareWrite) != 0;
  });
  if (writer == nullptr || ChangesOwner(call.header().pid, context_.callers).value_or(false))
    co_return refused;
  const wire::FileAttributes nothing;
  const wire::StateId no_open;
  absl::StatusOr<client::Attributes> attributes =
      co_await files_.Of(*writer->opener)
          .attributes()
          .SetAttributes(*writer->opener, node.handle, no_open, nothing);
  if (ErrnoFromStatus(attributes.status()) == EPERM) {
    attributes = co_await files_.Of(*user).attributes().GetAttributes(*user, node.handle);
  }
  co_return attributes;
}

// A change of size without a descriptor: truncate(2), or open(2) with O_TRUNC after its OPEN. The
// request still needs the state id of an open (6.5.35): one of the caller's if there is one,
// otherwise a new one. Without a state id if the server cannot open the file by its handle.
Task<AttributeOperations::Attributes> AttributeOperations::SetSize(CallerIdentity user,
                                                                   InodeView node,
                                                                   wire::FileAttributes set) {
  std::shared_ptr<OpenState> open = state_.open_files.FindIf([&](const OpenState& one) {
    return one.nodeid == node.nodeid && (ShareOf(one.flags) & wire::kShareWrite) != 0 &&
           !one.state_id.is_zero() && *one.opener == *user;
  });
  if (open != nullptr) {
    absl::StatusOr<client::Attributes> attributes =
        co_await files_.Of(*user).attributes().SetAttributes(*user, node.handle, open->state_id,
                                                             set);
    // It may have been closed meanwhile.
    if (!absl::IsAborted(attributes.status())) co_return attributes;
  }
  Task<absl::StatusOr<client::OpenFile>> opening =
      context_.opens.Open(*user, node, O_WRONLY, state_.owners.New());
  absl::StatusOr<client::OpenFile> file = co_await opening;
  if (!file.ok()) co_return file.status();
  absl::StatusOr<client::Attributes> attributes =
      co_await files_.Of(*user).attributes().SetAttributes(*user, node.handle, file->state_id, set);
  absl::Status closed = co_await files_.Of(*user).opens().Close(file->state_id, /*can_wait=*/true);
  closed.IgnoreError();  // the open ends with the lease
  co_return attributes;
}

// The kernel compares size and mtime with those of its pages when it gets the answer to a GETATTR,
// but not to a SETATTR. So it would take pages from before another client's change for current,
// until the next change or open.
Task<void> AttributeOperations::DropOlderPages(InodeView node, bool sets_size) {
  if (node.type != wire::ObjectType::kReg || state_.notifier == nullptr ||
      state_.caches.attributes.KernelHasOthersChanges(node.nodeid) ||
      files_.mount().opens().IsProtected(node.handle) ||
      !state_.caches.write_trackers.MayBeOpen(node.nodeid)) {
    co_return;
  }
  const std::shared_ptr<OpenState> reader = state_.open_files.FindIf([&](const OpenState& open) {
    return open.nodeid == node.nodeid && (ShareOf(open.flags) & wire::kShareRead) != 0;
  });
  if (reader == nullptr) co_return;  // the next open compares
  if (sets_size) {
    // Until it is answered, the kernel holds back writes of mapped pages, for which a drop waits.
    state_.notifier->DropPages(node.nodeid, [] {});
    co_return;
  }
  LoopWait dropped(files_.loop());
  state_.notifier->DropPages(node.nodeid, [waker = dropped.waker()] { waker.Wake(); });
  absl::Status ignored = co_await dropped.Wait();
}

Task<void> AttributeOperations::Setattr(Call& call) {
  RequestReader in = call.reader();
  auto setattr = in.Take<fuse_setattr_in>();
  std::optional<InodeView> node = NodeOf(state_, call, in);
  if (!node) co_return;
  CallerIdentity user;
  wire::StateId state_id;
  // ftruncate(2) has the rights of its descriptor, even if the mode has changed.
  bool by_open = (setattr.valid & FATTR_SIZE) == 0;
  if ((setattr.valid & FATTR_FH) && (setattr.valid & FATTR_SIZE)) {
    if (std::shared_ptr<OpenState> open = state_.open_files.Find(setattr.fh)) {
      state_id = open->state_id;
      user = open->opener;
      by_open = true;
    }
  }
  if (user == nullptr) user = CallerOf(state_, call);
  wire::FileAttributes set = AttributesToSet(setattr);
  if ((setattr.valid & (FATTR_MODE | FATTR_UID | FATTR_GID)) != 0) {
    Task<void> preparing = context_.BeforeRightsChange(*user, *node);
    co_await preparing;
  }
  if (files_.has_users() && (setattr.valid & FATTR_SIZE) != 0) {
    Task<void> preparing = context_.BeforeDataChange(*user, node->nodeid, node->handle);
    co_await preparing;
  }
  if ((setattr.valid & FATTR_UID) != 0) state_.caches.write_trackers.NoteOwnerChange(call.nodeid());
  AttributeChange change(context_, *node);
  Task<absl::StatusOr<client::Attributes>> setting =
      by_open ? files_.Of(*user).attributes().SetAttributes(*user, node->handle, state_id, set)
              : SetSize(user, *node, set);
  absl::StatusOr<client::Attributes> attributes = co_await setting;
  // If another user truncates through root's descriptor, the set-id bits must be cleared.
  if (attributes.ok() && (attributes->mode & (S_ISUID | S_ISGID)) != 0 && !state_id.is_zero() &&
      user->uid == 0 && call.header().uid != 0) {
    const wire::FileAttributes nothing;
    const wire::StateId no_open;
    attributes =
        co_await files_.Of(*user).attributes().SetAttributes(*user, node->handle, no_open, nothing);
  }
  if (set.valid == 0 && ErrnoFromStatus(attributes.status()) == EPERM) {
    Task<absl::StatusOr<client::Attributes>> taking =
        TakeSetIdBits(call, user, *node, attributes.status());
    attributes = co_await taking;
  }
  // Again, because an OPEN that was answered in between may have returned the previous owner.
  if ((setattr.valid & FATTR_UID) != 0) state_.caches.write_trackers.NoteOwnerChange(call.nodeid());
  change.End();
  if (attributes.ok()) {
    Task<void> dropping = DropOlderPages(*node, (setattr.valid & FATTR_SIZE) != 0);
    co_await dropping;
    context_.attributes.Reply(call, call.nodeid(), *attributes);
  } else {
    call.ReplyStatus(attributes.status());
  }
}

Task<void> AttributeOperations::Access(Call& call) {
  RequestReader in = call.reader();
  auto access = in.Take<fuse_access_in>();
  std::optional<InodeView> node = NodeOf(state_, call, in);
  if (!node) co_return;
  CallerIdentity user = CallerOf(state_, call);
  uint32_t wanted = AccessFromMask(access.mask, node->type == wire::ObjectType::kDir);
  absl::StatusOr<uint32_t> granted =
      co_await files_.Of(*user).attributes().Access(*user, node->handle, wanted);
  if (!granted.ok()) {
    call.ReplyStatus(granted.status());
  } else {
    call.ReplyErrno((*granted & wanted) == wanted ? 0 : EACCES);
  }
}

}  // namespace dafs::fuse
