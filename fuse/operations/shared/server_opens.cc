#include "fuse/operations/shared/server_opens.h"

#include <fcntl.h>

#include <optional>
#include <utility>

#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

// Whether an open bypasses the kernel's page cache: with O_DIRECT, or to append. The kernel would
// cache appended data at its own idea of the end, and return it from there until it requests the
// size. Kernels before 6.6 refuse shared mappings of such an open.
bool UsesDirectIo(uint32_t flags) { return (flags & O_DIRECT) != 0 || OpensToAppend(flags); }

// Whether an error of an OPEN by name concerns the file, not only its name.
bool IsRefusal(const absl::Status& status) {
  if (!wire::HasDafsStatus(status)) return true;
  switch (wire::DafsFromStatus(status)) {
    case wire::DafsStatus::kNoEnt:
    case wire::DafsStatus::kStale:
    case wire::DafsStatus::kNotDir:
    case wire::DafsStatus::kIsDir:
    case wire::DafsStatus::kSymlink:
    case wire::DafsStatus::kFhExpired:
    case wire::DafsStatus::kBadHandle:
      return false;
    default:
      return true;
  }
}

}  // namespace

bool OpensToWrite(uint32_t flags) { return (ShareOf(flags) & wire::kShareWrite) != 0; }
bool BypassesPages(uint32_t flags) { return UsesDirectIo(flags) && OpensToWrite(flags); }
bool OpensToAppend(uint32_t flags) { return (flags & O_APPEND) != 0 && OpensToWrite(flags); }

// FUSE's OPEN has a node, DAFS's OPEN a name. OPEN_HANDLE opens a file by its handle. If the server
// does not have it, the last known name of the node is opened, and the result is used only if it is
// the same file. Otherwise the file is used without an open at the server (state id zero).
Task<absl::StatusOr<client::OpenFile>> ServerOpens::Open(const client::Identity& user,
                                                         const InodeView& node, uint32_t flags,
                                                         std::string owner) {
  if (std::optional<client::OpenFile> local = OpenLocally(user, node, flags, owner)) {
    co_return *std::move(local);
  }
  client::OpenRequest request;
  request.owner = std::move(owner);
  request.share_access = ShareOf(flags);
  Task<absl::StatusOr<client::OpenFile>> opening =
      flags & kOpenForExec
          ? files_.Of(user).opens().OpenForExecution(user, node.handle, request.owner)
          : files_.Of(user).opens().OpenByHandle(user, node.handle, request.share_access,
                                                 request.owner);
  absl::StatusOr<client::OpenFile> file = co_await opening;
  if (wire::DafsFromStatus(file.status()) == wire::DafsStatus::kPerm && OpensToAppend(flags)) {
    Task<absl::StatusOr<client::OpenFile>> again = OpenToAppend(user, node, flags, file.status());
    file = co_await again;
    co_return file;
  }
  if (!file.ok() || !file->state_id.is_zero()) co_return file;
  DentryName dentry = state_.caches.inodes.LatestDentryOf(node.nodeid);
  std::optional<InodeView> parent = state_.caches.inodes.Find(dentry.parent);
  if (dentry.name.empty() || !parent) co_return file;
  request.directory = parent->handle;
  request.name = dentry.name;
  absl::StatusOr<client::OpenFile> named = co_await files_.Of(user).opens().Open(user, request);
  if (!named.ok()) {
    if (IsRefusal(named.status())) co_return named;
    co_return file;
  }
  if (named->handle == node.handle) co_return named;
  absl::Status closed = co_await files_.Of(user).opens().Close(named->state_id);
  closed.IgnoreError();
  co_return file;
}

// An append-only file (chattr +a at the server) cannot be opened there for writing, because OPEN
// does not say that the caller only appends. It is used without an open at the server, which checks
// each append. For an immutable file, ACCESS does not grant kAccessExtend, and the open fails.
Task<absl::StatusOr<client::OpenFile>> ServerOpens::OpenToAppend(const client::Identity& user,
                                                                 const InodeView& node,
                                                                 uint32_t flags,
                                                                 absl::Status refused) {
  uint32_t needed = wire::kAccessExtend;
  if ((ShareOf(flags) & wire::kShareRead) != 0) needed |= wire::kAccessRead;
  Task<absl::StatusOr<uint32_t>> asking =
      files_.Of(user).attributes().Access(user, node.handle, needed);
  const absl::StatusOr<uint32_t> access = co_await asking;
  if (!access.ok() || (*access & needed) != needed) co_return refused;
  Task<absl::StatusOr<client::Attributes>> looking =
      files_.Of(user).attributes().GetAttributes(user, node.handle);
  absl::StatusOr<client::Attributes> attributes = co_await looking;
  if (!attributes.ok()) co_return attributes.status();
  client::OpenFile file;
  file.handle = node.handle;
  file.attributes = *std::move(attributes);
  co_return file;
}

std::optional<client::OpenFile> ServerOpens::OpenLocally(const client::Identity& user,
                                                         const InodeView& node, uint32_t flags,
                                                         std::string owner) {
  return files_.Of(user).opens().OpenLocally(user, node.handle, ShareOf(flags), std::move(owner));
}

void ServerOpens::DropUnanswered(const Call& call, const client::OpenFile& again) {
  if ((call.header().unique & kUniqueResent) == 0) return;
  const LeftOpens::Left left = state_.left.opens.Take(call.header().unique & ~kUniqueResent);
  // Otherwise an open would be reclaimed after each restart of the server, and keep a removed file.
  if (!left.open.is_zero()) {
    Start(files_.Of(left.user).opens().EndEarlier(left.open, again.state_id));
  }
  const std::shared_ptr<OpenState> open = state_.open_files.Remove(left.file);
  if (open == nullptr) return;
  state_.caches.pages.EndOpen(open->nodeid, 0, open->bypasses_before, BypassesPages(open->flags));
  state_.live_files.Drop(*open);
  Start(files_.Of(*open->opener).opens().EndEarlier(open->state_id, again.state_id));
}

Task<void> ServerOpens::CloseLeft(LeftOpens::Left left) {
  if (left.file != 0) {
    Task<void> undoing = Undo(left.file);
    co_await undoing;
  }
  if (left.open.is_zero()) co_return;
  Task<absl::Status> closing = files_.Of(left.user).opens().Close(left.open, /*can_wait=*/true);
  const absl::Status ignored = co_await closing;  // as in Close
}

fuse_open_out ServerOpens::Add(const Call& call, const client::OpenFile& file, uint64_t nodeid,
                               uint32_t flags, CallerIdentity user, bool keep_cache) {
  DropUnanswered(call, file);
  auto open = std::make_shared<OpenState>();
  open->opened_by = call.header().unique & ~kUniqueResent;
  open->nodeid = nodeid;
  open->handle = file.handle;
  open->state_id = file.state_id;
  open->flags = flags;
  open->by_own_right = user->uid == 0 || (file.attributes.has(wire::kFattrOwner) &&
                                          file.attributes.owner == std::to_string(user->uid));
  open->opener = std::move(user);
  open->writes = state_.caches.write_trackers.Of(nodeid);
  open->owner_changes = open->writes->owner_changes();
  open->errors = open->writes->SampleErrors();
  if ((flags & O_DIRECT) != 0) open->direct.emplace(open->writes);
  if (file.attributes.has(wire::kFattrChange)) open->change = file.attributes.change;
  open->delegation = file.delegation;
  open->bypasses_before = state_.caches.pages.BeginOpen(nodeid, BypassesPages(flags));
  if (keep_cache && !BypassesPages(flags)) {
    state_.caches.pages.EndOpen(nodeid, file.delegation, open->bypasses_before, false);
  }
  fuse_open_out out = {};
  out.fh = state_.open_files.Add(open);
  state_.live_files.Put(out.fh, *open);
  if (UsesDirectIo(flags)) {
    out.open_flags |= FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
  }
  if (keep_cache) out.open_flags |= FOPEN_KEEP_CACHE;
  // Nothing is written through a read-only open, so close(2) needs no FLUSH, unless the server
  // keeps record locks: close(2) of any descriptor of the file releases them.
  if (!OpensToWrite(flags) && !PosixAtServer(state_.options)) out.open_flags |= FOPEN_NOFLUSH;
  return out;
}

std::shared_ptr<OpenState> ServerOpens::Release(uint64_t fh) {
  std::shared_ptr<OpenState> open = state_.open_files.Remove(fh);
  if (open != nullptr) state_.live_files.End(*open);
  return open;
}

Task<void> ServerOpens::Undo(uint64_t fh) {
  std::shared_ptr<OpenState> open = Release(fh);
  if (open == nullptr) co_return;
  state_.caches.pages.EndOpen(open->nodeid, 0, open->bypasses_before, BypassesPages(open->flags));
  Task<void> closing = Close(std::move(open));
  co_await closing;
}

Task<void> ServerOpens::Close(std::shared_ptr<OpenState> open) {
  const bool may_write_again =
      open->by_own_right &&
      (open->opener->uid == 0 || open->owner_changes == open->writes->owner_changes());
  client::Files& files = files_.Of(*open->opener);
  if (!may_write_again && OpensToWrite(open->flags) && files.commits().NeedsCommit(open->handle)) {
    Task<void> committing = files.commits().CommitNow(open->handle);
    co_await committing;
  }
  absl::Status closed = co_await files.opens().Close(open->state_id, /*can_wait=*/true);
  closed.IgnoreError();  // no caller waits for it; the open ends with the lease
  state_.live_files.Drop(*open);
}

}  // namespace dafs::fuse
