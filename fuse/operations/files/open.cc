#include "fuse/operations/files/open.h"

#include <fcntl.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuse/files/lock_owners.h"
#include "fuse/files/open_files.h"
#include "fuse/kernel/attributes.h"
#include "fuse/kernel/errno.h"
#include "fuse/operations/shared/directory_change.h"
#include "fuse/operations/shared/name_revalidation.h"
#include "fuse/operations/shared/new_objects.h"
#include "fuse/operations/shared/new_xattrs.h"

namespace dafs::fuse {

Task<void> OpenOperations::Open(Call& call) {
  RequestReader in = call.reader();
  auto request = in.Take<fuse_open_in>();
  std::optional<InodeView> node = NodeOf(state_, call, in);
  if (!node) co_return;
  CallerIdentity user = CallerOf(state_, call);
  if (std::optional<client::OpenFile> local = context_.opens.OpenLocally(
          *user, *node, request.flags, OwnerNames::OfRequest(call.header().unique))) {
    co_await ReplyLocal(call, *local, request.flags, std::move(user));
    co_return;
  }
  const absl::Time asked_at = Loop::Now();
  const OwnChanges::Moment asked = state_.caches.attributes.MomentOf(call.nodeid());
  const bool is_retry =
      state_.stale_opens.IsRetry(call.header().pid, call.nodeid(), call.arrived());
  Task<absl::StatusOr<client::OpenFile>> opening =
      context_.opens.Open(*user, *node, request.flags, OwnerNames::OfRequest(call.header().unique));
  absl::StatusOr<client::OpenFile> file = co_await opening;
  if (!file.ok()) {
    if (ErrnoFromStatus(file.status()) == ESTALE && !is_retry) {
      ReplyStale(state_, call, call.nodeid());
    } else {
      call.ReplyStatus(file.status());
    }
    co_return;
  }
  if (file->is_local) {
    co_await ReplyLocal(call, *file, request.flags, std::move(user));
    co_return;
  }
  Task<bool> losing = HasLostName(state_, files_, user, *node, file->attributes);
  const bool lost_name = co_await losing;
  if (lost_name && !is_retry) {
    ReplyStale(state_, call, call.nodeid());
    files_.Of(*user).opens().StopLocalOpens(node->handle);
    absl::Status closed =
        co_await files_.Of(*user).opens().Close(file->state_id, /*can_wait=*/true);
    closed.IgnoreError();
    co_return;
  }
  const bool keep_cache = InvalidateOlder(call, *file, asked, asked_at);
  fuse_open_out out =
      context_.opens.Add(call, *file, call.nodeid(), request.flags, user, keep_cache);
  if (!call.Reply({AsBytes(out)})) {
    co_await context_.opens.Undo(out.fh);
  }
}

// Answers an open under a delegation. No other client has changed the file or its names since the
// delegation was granted, and the kernel has seen the changes of this mount.
Task<void> OpenOperations::ReplyLocal(Call& call, const client::OpenFile& file, uint32_t flags,
                                      CallerIdentity user) {
  const bool keep_cache = state_.caches.pages.AreOf(call.nodeid(), file.delegation);
  fuse_open_out out =
      context_.opens.Add(call, file, call.nodeid(), flags, std::move(user), keep_cache);
  if (!call.Reply({AsBytes(out)})) co_await context_.opens.Undo(out.fh);
}

// Close-to-open: an open sees everything that was written and closed before. Invalidates what the
// kernel caches of the file if it is older than `file`, whose open was requested at `asked`.
// Returns whether the kernel may keep its pages.
bool OpenOperations::InvalidateOlder(Call& call, const client::OpenFile& file,
                                     const OwnChanges::Moment& asked, absl::Time asked_at) {
  const bool has_change = file.attributes.has(wire::kFattrChange);
  const uint64_t change = file.attributes.change;
  const bool current =
      has_change && state_.caches.attributes.KernelIsCurrent(call.nodeid(), change);
  // The caller uses the node until this call is answered, so the notification does not block.
  if (!current && !call.answered()) context_.attributes.Forget(call.nodeid());
  if (has_change)
    state_.caches.attributes.KeepPrefetched(call.nodeid(), asked, file.attributes, asked_at);
  return has_change && state_.caches.pages.AreCurrent(call.nodeid(), change);
}

Task<void> OpenOperations::Create(Call& call) {
  RequestReader in = call.reader();
  auto create = in.Take<fuse_create_in>();
  std::string_view name = in.TakeName();
  std::optional<InodeView> parent = NodeOf(state_, call, in);
  if (!parent) co_return;
  CallerIdentity user = CallerOf(state_, call);
  client::OpenRequest request;
  request.directory = parent->handle;
  request.name = std::string(name);
  request.share_access = ShareOf(create.flags);
  request.owner = OwnerNames::OfRequest(call.header().unique);
  request.create = true;
  // GUARDED sets mode and owner when it creates the file; EXCLUSIVE needs a second request for
  // that.
  request.create_mode =
      create.flags & O_EXCL ? wire::CreateMode::kGuarded : wire::CreateMode::kUnchecked;
  uint32_t mode = co_await ModeOfNew(context_, *user, *parent, create.mode, create.umask);
  request.attributes = NewFileAttributes(mode);
  request.truncate = (create.flags & O_TRUNC) != 0;
  DirectoryChange change(context_, *parent, name);
  absl::StatusOr<client::OpenFile> file =
      co_await files_.Of(*user).opens().Open(*user, request, change.after());
  change.End();
  if (!file.ok()) {
    Task<void> replying = ReplyNotCreated(call, user, *parent, name, create.flags, file.status());
    co_await replying;
    co_return;
  }
  if (files_.has_users() && request.truncate && !file->created) {  // as BeforeDataChange, but after
    Task<void> committing = files_.CommitOfOthers(*user, file->handle);
    co_await committing;
  }
  DentryName dentry{call.nodeid(), request.name};
  co_await ReplyCreated(call, *file, dentry, create.flags, user);
}

// The kernel expected that the name does not exist. With ESTALE it looks the name up again, and
// then follows the link or opens the FIFO that another client has created.
Task<void> OpenOperations::ReplyNotCreated(Call& call, CallerIdentity user, InodeView parent,
                                           std::string_view name, uint32_t flags,
                                           absl::Status failed) {
  context_.entries.DropName({call.nodeid(), std::string(name)});
  int error = ErrnoFromStatus(failed);
  if (error == ELOOP) error = ESTALE;
  if (error == EINVAL || (error == EPERM && OpensToAppend(flags))) {
    absl::StatusOr<client::Node> there =
        co_await files_.Of(*user).names().Lookup(*user, parent.handle, name);
    const bool is_file = there.ok() && there->attributes.object_type == wire::ObjectType::kReg;
    if (there.ok() && is_file == (error == EPERM)) error = ESTALE;  // OPEN handles it
  }
  if (error == ESTALE) {
    ReplyStale(state_, call, call.nodeid());
  } else {
    call.ReplyErrno(error);
  }
}

Task<void> OpenOperations::ReplyCreated(Call& call, const client::OpenFile& file, DentryName dentry,
                                        uint32_t flags, CallerIdentity user) {
  client::Node node{file.handle, file.attributes, file.names};
  if (call.answered()) context_.entries.DropName(dentry);
  fuse_entry_out entry = context_.entries.Entry(call, node, dentry, call.arrived());
  if (file.created) NoteNew(state_, entry.nodeid, call.nodeid(), Loop::Now());
  fuse_open_out out = context_.opens.Add(call, file, entry.nodeid, flags, user, false);
  if (!call.Reply({AsBytes(entry), AsBytes(out)})) {
    context_.entries.Undo(entry.nodeid);
    co_await context_.opens.Undo(out.fh);
  }
}

// O_TMPFILE. The kernel itself enforces O_EXCL, which forbids giving the file a name later.
Task<void> OpenOperations::Tmpfile(Call& call) {
  RequestReader in = call.reader();
  auto create = in.Take<fuse_create_in>();
  std::optional<InodeView> parent = NodeOf(state_, call, in);
  if (!parent) co_return;
  CallerIdentity user = CallerOf(state_, call);
  client::OpenRequest request;
  request.directory = parent->handle;
  request.share_access = ShareOf(create.flags);
  request.owner = OwnerNames::OfRequest(call.header().unique);
  uint32_t mode = co_await ModeOfNew(context_, *user, *parent, create.mode, create.umask);
  request.attributes = NewFileAttributes(mode);
  absl::StatusOr<client::OpenFile> file =
      co_await files_.Of(*user).opens().OpenUnlinked(*user, request);
  if (!file.ok()) {
    call.ReplyStatus(file.status());
    co_return;
  }
  DentryName nowhere{call.nodeid(), ""};
  co_await ReplyCreated(call, *file, nowhere, create.flags, user);
}

Task<void> OpenOperations::Release(Call& call) {
  RequestReader in = call.reader();
  auto release = in.Take<fuse_release_in>();
  std::shared_ptr<OpenState> open = in.ok() ? context_.opens.Release(release.fh) : nullptr;
  // The kernel has kept or dropped its pages as the answer to OPEN said, so none is older than that
  // open.
  if (open != nullptr && open->change.has_value()) {
    state_.caches.pages.Are(open->nodeid, *open->change);
  }
  if (open != nullptr) {
    state_.caches.pages.EndOpen(open->nodeid, open->delegation, open->bypasses_before,
                                BypassesPages(open->flags));
  }
  if (open != nullptr && !OpensToWrite(open->flags))
    state_.caches.attributes.InvalidatePrefetched(open->nodeid);
  // Answered before the CLOSE: no program waits for it, and it commits nothing.
  call.ReplyOk();
  if (open == nullptr) co_return;
  co_await context_.pending.Drained(open->nodeid);  // pending writes use this open
  std::vector<LockOwners::Ended> ended = state_.lock_owners.EndHandle(release.fh);
  for (const LockOwners::Ended& owner : ended) {
    Task<void> ending = context_.lock_owners.End(owner);
    co_await ending;
  }
  co_await context_.opens.Close(open);
}

}  // namespace dafs::fuse
