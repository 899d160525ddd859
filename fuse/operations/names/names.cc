#include "fuse/operations/names/names.h"

#include <limits.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "fuse/kernel/attributes.h"
#include "fuse/kernel/errno.h"
#include "fuse/operations/shared/directory_change.h"
#include "fuse/operations/shared/new_objects.h"
#include "fuse/operations/shared/request_nodes.h"
#include "runtime/loop/loop.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

constexpr uint32_t kMadeBytes = 4096;  // for a listing of a directory that is probably empty

bool IsForbidden(const absl::Status& status) {
  return wire::DafsFromStatus(status) == wire::DafsStatus::kAcces;
}

}  // namespace

Task<void> NameOperations::Lookup(Call& call) {
  RequestReader in = call.reader();
  std::string_view name = in.TakeName();
  std::optional<InodeView> parent = NodeOf(state_, call, in);
  if (!parent) co_return;
  const DentryName dentry{call.nodeid(), std::string(name)};
  if (context_.entries.ReplyKnownAbsent(call, *parent, dentry)) co_return;
  CallerIdentity user = CallerOf(state_, call);
  if (const uint64_t listing = state_.caches.whole_directories.BeginListingOfMade(parent->handle)) {
    Task<void> reading = ReadMade(user, *parent, listing);
    co_await reading;
    if (context_.entries.ReplyKnownAbsent(call, *parent, dentry)) co_return;
  }
  const std::optional<absl::Time> before = context_.pending.BeforeAsking();
  client::Promise absent;
  absl::StatusOr<client::Node> node =
      co_await files_.Of(*user).names().Lookup(*user, parent->handle, name, &absent);
  if (!node.ok() && IsForbidden(node.status()) && TakeNewGroups(state_, call, user)) {
    node = co_await files_.Of(*user).names().Lookup(*user, parent->handle, name, &absent);
  }
  co_await context_.pending.Revalidate(*user, before, node);
  if (wire::DafsFromStatus(node.status()) == wire::DafsStatus::kNoEnt &&
      context_.entries.ReplyAbsent(call, dentry, absent)) {
    co_return;
  }
  context_.entries.Reply(call, node, dentry);
}

// The directory was made by this mount, and is probably empty: one request shows that no name
// exists in it. Errors are left to the lookups that follow.
Task<void> NameOperations::ReadMade(CallerIdentity user, InodeView directory, uint64_t listing) {
  absl::StatusOr<client::BufferLease> lease =
      co_await files_.Of(*user).buffers().Acquire(client::BufferUse::kReadTarget, kMadeBytes);
  if (!lease.ok()) co_return;
  const wire::Verifier none;  // outlives the task, which starts later than this argument is made
  Task<absl::StatusOr<client::DirectoryPage>> reading =
      files_.Of(*user).directories().ReadDirectory(*user, directory.handle, 0, none, kMadeBytes, 0,
                                                   *lease);
  absl::StatusOr<client::DirectoryPage> page = co_await reading;
  client::Promise promise;
  std::vector<std::string> names;
  if (page.ok() && page->eof && page->names.only_clients) {
    wire::DirentView view;
    while (page->entries.Next(view)) names.emplace_back(view.name);
    if (page->entries.status().ok()) promise = page->names;
  }
  state_.caches.whole_directories.EndListing(directory.handle, listing, names, promise,
                                             Loop::Now() + PromiseRules::kPromisedFor);
}

Task<void> NameOperations::Readlink(Call& call) {
  std::optional<InodeView> node = NodeOf(state_, call);
  if (!node) co_return;
  CallerIdentity user = CallerOf(state_, call);
  absl::StatusOr<std::string> target =
      co_await files_.Of(*user).names().ReadLink(*user, node->handle);
  if (!target.ok()) {
    NoteGone(state_, call.nodeid(), target.status());
    call.ReplyStatus(target.status());
  } else if (target->size() >= PATH_MAX) {
    call.ReplyErrno(ENAMETOOLONG);
  } else {
    state_.caches.attributes.MarkChanged(call.nodeid(),
                                         Loop::Now());  // its access time may have moved
    call.Reply({std::as_bytes(std::span(*target))});
  }
}

Task<void> NameOperations::Symlink(Call& call) {
  RequestReader in = call.reader();
  std::string_view name = in.TakeName();
  std::string_view target = in.TakeString();
  if (!in.ok() || target.empty()) {
    call.ReplyErrno(in.ok() ? EINVAL : in.error());
    co_return;
  }
  std::optional<InodeView> parent = NodeOf(state_, call);
  if (!parent) co_return;
  CallerIdentity user = CallerOf(state_, call);
  DirectoryChange change(context_, *parent, name);
  absl::StatusOr<client::Node> node = co_await files_.Of(*user).names().MakeSymlink(
      *user, parent->handle, name, target, change.after());
  change.End();
  context_.entries.Reply(call, node, {call.nodeid(), std::string(name)});
}

Task<void> NameOperations::Mknod(Call& call) {
  RequestReader in = call.reader();
  auto mknod = in.Take<fuse_mknod_in>();
  std::string_view name = in.TakeName();
  wire::ObjectType type = TypeFromMode(mknod.mode);
  if (!in.ok() || type == wire::ObjectType::kInvalid || type == wire::ObjectType::kDir ||
      type == wire::ObjectType::kLnk) {
    call.ReplyErrno(in.ok() ? EINVAL : in.error());
    co_return;
  }
  std::optional<InodeView> parent = NodeOf(state_, call);
  if (!parent) co_return;
  CallerIdentity user = CallerOf(state_, call);
  wire::SpecData device = DeviceFromKernel(mknod.rdev);
  uint32_t mode = co_await ModeOfNew(context_, *user, *parent, mknod.mode, mknod.umask);
  mode &= wire::kModeBits;
  DirectoryChange change(context_, *parent, name);
  absl::StatusOr<client::Node> node = co_await files_.Of(*user).names().MakeNode(
      *user, parent->handle, name, type, device, mode, change.after());
  change.End();
  context_.entries.ReplyNew(call, node, {call.nodeid(), std::string(name)});
}

Task<void> NameOperations::Mkdir(Call& call) {
  RequestReader in = call.reader();
  auto mkdir = in.Take<fuse_mkdir_in>();
  std::string_view name = in.TakeName();
  std::optional<InodeView> parent = NodeOf(state_, call, in);
  if (!parent) co_return;
  CallerIdentity user = CallerOf(state_, call);
  uint32_t mode = co_await ModeOfNew(context_, *user, *parent, mkdir.mode, mkdir.umask);
  wire::FileAttributes attributes = NewFileAttributes(mode);
  DirectoryChange change(context_, *parent, name);
  absl::StatusOr<client::Node> node = co_await files_.Of(*user).names().MakeDirectory(
      *user, parent->handle, name, attributes, change.after());
  change.End();
  // Then the first lookup in it lists it.
  const bool keeps_absent =
      state_.kernel.default_permissions && state_.options.lookup_cache != LookupCache::kNone;
  if (node.ok() && node->names.only_clients && keeps_absent) {
    state_.caches.whole_directories.Made(node->handle);
  }
  context_.entries.ReplyNew(call, node, {call.nodeid(), std::string(name)});
}

// The file of a name, if the kernel keeps the name.
std::optional<InodeView> NameOperations::FileAt(uint64_t directory, std::string_view name) const {
  const auto known = state_.caches.directory_names.Find(directory, name, Loop::Now());
  if (!known.has_value()) return std::nullopt;
  std::optional<InodeView> node = state_.caches.inodes.Find(known->nodeid);
  if (node.has_value() && node->type != wire::ObjectType::kReg) node.reset();
  return node;
}

Task<void> NameOperations::Unlink(Call& call) {
  RequestReader in = call.reader();
  std::string_view name = in.TakeName();
  std::optional<InodeView> parent = NodeOf(state_, call, in);
  if (!parent) co_return;
  CallerIdentity user = CallerOf(state_, call);
  DirectoryChange change(context_, *parent);
  const bool directory = call.header().opcode == FUSE_RMDIR;
  const std::optional<InodeView> file = directory ? std::nullopt : FileAt(call.nodeid(), name);
  auto removal = [&] {
    state_.caches.attributes.NameRemoved();
    if (!directory) return;
    state_.caches.attributes.DirectoryRemoved();
    change.CountRemoval();
  };
  removal();
  absl::Status removed = co_await files_.Of(*user).names().Remove(
      *user, parent->handle, name, change.after(), nullptr, file ? &file->handle : nullptr);
  removal();
  change.Removed(name, removed.ok() && !call.answered());
  change.End();
  const DentryName dentry{call.nodeid(), std::string(name)};
  if (!removed.ok() || call.answered()) {
    context_.entries.DropName(dentry);
  } else {
    context_.entries.Removed(file, dentry);
  }
  call.ReplyStatus(removed);
}

Task<void> NameOperations::Rename(Call& call) {
  RequestReader in = call.reader();
  auto rename = in.Take<fuse_rename_in>();
  std::string_view old_name = in.TakeName();
  std::string_view new_name = in.TakeName();
  if (!in.ok()) {
    call.ReplyErrno(in.error());
    co_return;
  }
  co_await RenameTo(call, rename.newdir, old_name, new_name, 0);
}

Task<void> NameOperations::Rename2(Call& call) {
  RequestReader in = call.reader();
  auto rename = in.Take<fuse_rename2_in>();
  std::string_view old_name = in.TakeName();
  std::string_view new_name = in.TakeName();
  // RENAME_WHITEOUT is for upper layers of overlayfs, which cannot be on a network file system.
  bool known = rename.flags == 0 || rename.flags == wire::kRenameNoReplace ||
               rename.flags == wire::kRenameExchange;
  if (!in.ok() || !known) {
    call.ReplyErrno(in.ok() ? EINVAL : in.error());
    co_return;
  }
  co_await RenameTo(call, rename.newdir, old_name, new_name, rename.flags);
}

Task<void> NameOperations::RenameTo(Call& call, uint64_t new_directory, std::string_view old_name,
                                    std::string_view new_name, uint32_t flags) {
  std::optional<InodeView> from = NodeOf(state_, call);
  if (!from) co_return;
  std::optional<InodeView> to = NodeOf(state_, call, new_directory);
  if (!to) co_return;
  CallerIdentity user = CallerOf(state_, call);
  const bool same_directory = new_directory == call.nodeid();
  DirectoryChange from_change(context_, *from, same_directory ? new_name : std::string_view());
  std::optional<DirectoryChange> to_change;
  if (!same_directory) to_change.emplace(context_, *to, new_name);
  const std::optional<InodeView> replaced = FileAt(new_directory, new_name);
  client::Attributes* to_after = to_change.has_value() ? to_change->after() : nullptr;
  client::Promise names;
  Task<absl::Status> renaming =
      flags == 0 ? files_.Of(*user).names().Rename(*user, from->handle, old_name, to->handle,
                                                   new_name, from_change.after(), to_after, &names,
                                                   replaced ? &replaced->handle : nullptr)
                 : files_.Of(*user).names().Rename2(*user, from->handle, old_name, to->handle,
                                                    new_name, flags, &names);
  auto removal = [&] {
    state_.caches.attributes.NameRemoved();
    state_.caches.attributes.DirectoryRemoved();
    from_change.CountRemoval();
    if (to_change.has_value()) to_change->CountRemoval();
  };
  removal();
  absl::Status renamed = co_await renaming;
  removal();
  const bool exchanged = flags == wire::kRenameExchange;
  const bool moves = renamed.ok() && !call.answered();
  if (!exchanged || !moves) from_change.Removed(old_name, moves);
  if (!moves && to_change.has_value()) to_change->Removed(new_name, false);
  from_change.End();
  if (to_change.has_value()) to_change->End();
  // If the caller was killed meanwhile, the call has failed, and the kernel moves nothing.
  const DentryName old_dentry{call.nodeid(), std::string(old_name)};
  const DentryName new_dentry{new_directory, std::string(new_name)};
  if (moves) {
    context_.entries.Moved(old_dentry, new_dentry, exchanged, names);
    if (!exchanged) context_.entries.Removed(replaced, new_dentry);
  } else {
    context_.entries.DropName(old_dentry);
    context_.entries.DropName(new_dentry);
  }
  int error = ErrnoFromStatus(renamed);
  // 6.5.34: EXIST means any target that does not fit the source. The kernel has checked the types,
  // so the target is a directory that is not empty.
  if (flags == 0 && error == EEXIST) error = ENOTEMPTY;
  // A server without RENAME2: rename(2) fails with EINVAL if the file system lacks the flag.
  if (flags != 0 && error == EOPNOTSUPP) error = EINVAL;
  call.ReplyErrno(error);
}

Task<void> NameOperations::Link(Call& call) {
  RequestReader in = call.reader();
  auto link = in.Take<fuse_link_in>();
  std::string_view name = in.TakeName();
  std::optional<InodeView> directory = NodeOf(state_, call, in);
  if (!directory) co_return;
  std::optional<InodeView> file = NodeOf(state_, call, link.oldnodeid);
  if (!file) co_return;
  const bool is_retry =
      state_.stale_opens.IsRetry(call.header().pid, link.oldnodeid, call.arrived());
  co_await context_.pending.Drained(link.oldnodeid);
  if (call.answered()) co_return;  // its caller was killed while it waited
  CallerIdentity user = CallerOf(state_, call);
  DirectoryChange change(context_, *directory, name);
  context_.attributes.MarkChanged(link.oldnodeid);
  absl::StatusOr<client::Node> node = co_await files_.Of(*user).names().Link(
      *user, file->handle, directory->handle, name, change.after());
  change.End();
  if (wire::DafsFromStatus(node.status()) == wire::DafsStatus::kStale) {
    if (!is_retry) {  // its name may now lead to another file
      ReplyStale(state_, call, link.oldnodeid);
      co_return;
    }
    // link(2) fails with ENOENT if the file has lost its last name. ESTALE would reach the program
    // if another client removed that name without this kernel's knowledge.
    absl::StatusOr<client::Attributes> left =
        co_await files_.Of(*user).attributes().GetAttributes(*user, file->handle);
    if (left.ok() && left->num_links == 0) {
      call.ReplyErrno(ENOENT);
      co_return;
    }
  }
  // The kernel accepts only the node that it named.
  if (node.ok()) node->handle = file->handle;
  context_.entries.Reply(call, node, {call.nodeid(), std::string(name)});
}

}  // namespace dafs::fuse
