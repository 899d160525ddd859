#include "fuse/operations/shared/entry_replies.h"

#include <limits.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "fuse/kernel/attributes.h"
#include "fuse/operations/shared/new_xattrs.h"
#include "fuse/operations/shared/request_nodes.h"
#include "runtime/loop/loop.h"
#include "wire/protocol/name_check.h"

namespace dafs::fuse {
namespace {

// The kernel's timeout begins only when the thread that made the request has woken up.
constexpr absl::Duration kTakenWithin = absl::Seconds(1);

}  // namespace

fuse_entry_out EntryReplies::Entry(const Call& call, const client::Node& node,
                                   const DentryName& dentry, absl::Time asked) {
  const absl::Time now = Loop::Now();
  const uint32_t thread = call.header().opcode == FUSE_LOOKUP ? call.header().pid : 0;
  const Asker asker = {thread, now};
  fuse_entry_out out = {};
  out.nodeid = state_.caches.inodes.Remember(node.handle, node.attributes, dentry, asker);
  out.generation = state_.caches.inodes.GenerationOf(out.nodeid);
  // The node may come from a listing that was read for an earlier request.
  const absl::Duration age = asked < call.arrived() ? now - asked : absl::ZeroDuration();
  const absl::Duration good_for = attributes_.Validity(call, out.nodeid, node.attributes) - age;
  const KernelTime valid = Validity(std::max(good_for, absl::ZeroDuration()));
  out.attr_valid = valid.seconds;
  out.attr_valid_nsec = valid.nanoseconds;
  KeepName(out, node, dentry, good_for);
  out.attr = KernelAttributes(node.attributes, out.nodeid);
  out.attr.ino = state_.caches.inodes.NumberIn(node.handle.fshandle, out.attr.ino);
  return out;
}

// Lets the kernel keep the name, under a promise or for as long as the attributes, so that it
// revalidates both with one request.
void EntryReplies::KeepName(fuse_entry_out& entry, const client::Node& node,
                            const DentryName& dentry, absl::Duration attributes_for) {
  if (state_.options.lookup_cache == LookupCache::kNone || dentry.name.empty()) return;
  const bool offered = state_.caches.rules.offered();
  const bool exact = offered && node.names.only_clients;
  const wire::ObjectType type = node.attributes.object_type;
  // The kernel follows a link, and opens a FIFO, a socket or a device, without a request. An open
  // must find what a program of the server has put in its place.
  if (!exact && type != wire::ObjectType::kReg && type != wire::ObjectType::kDir) return;
  absl::Duration validity = exact ? PromiseRules::kPromisedFor : attributes_for;
  if (offered && validity <= absl::ZeroDuration()) {  // the attributes alone are not promised
    const CacheTimes& times = state_.options.cache;
    validity = type == wire::ObjectType::kDir ? times.dir_min : times.reg_min;
  }
  if (validity <= absl::ZeroDuration()) return;
  if (!MayKeep(dentry, entry.nodeid, node.names, validity)) {
    // Otherwise the mount could list what the name led to before.
    const std::optional<InodeView> parent = state_.caches.inodes.Find(dentry.parent);
    if (parent.has_value()) state_.caches.whole_directories.Forget(parent->handle);
    return;
  }
  const KernelTime valid = Validity(validity);
  entry.entry_valid = valid.seconds;
  entry.entry_valid_nsec = valid.nanoseconds;
  // The name may be given to another file unannounced: opens look for that.
  if (exact) return;
  state_.caches.inodes.With(entry.nodeid, [&](Inode* inode) {
    if (inode == nullptr) return;
    inode->names.Sent(dentry, node.attributes.change, Loop::Now() + validity + kTakenWithin);
  });
}

// Whether the kernel may keep the name for `validity`. An announced change then finds it.
bool EntryReplies::MayKeep(const DentryName& dentry, uint64_t nodeid, const client::Promise& names,
                           absl::Duration validity) {
  const std::optional<InodeView> parent = state_.caches.inodes.Find(dentry.parent);
  if (!parent.has_value()) return false;
  const auto is_good = [&] {
    return !state_.caches.rules.offered() || state_.caches.rules.IsGood(names, parent->handle);
  };
  const absl::Time now = Loop::Now();
  return is_good() &&
         state_.caches.directory_names.Insert(dentry.parent, dentry.name, nodeid, now,
                                              now + validity + kTakenWithin) &&
         is_good();
}

bool EntryReplies::ReplyAbsent(Call& call, const DentryName& dentry, const client::Promise& names) {
  // Programs of the server create names unannounced, and these shall be found at once.
  const bool exact = state_.caches.rules.offered() && names.only_clients;
  const LookupCache option = state_.options.lookup_cache;
  if (option == LookupCache::kNone) return false;
  if (option != LookupCache::kAll && !exact) return false;
  const absl::Duration validity = exact ? PromiseRules::kPromisedFor : state_.options.cache.dir_min;
  if (state_.caches.rules.offered() && !MayKeep(dentry, 0, names, validity)) return false;
  fuse_entry_out out = {};  // node 0: a negative entry
  const KernelTime valid = Validity(validity);
  out.entry_valid = valid.seconds;
  out.entry_valid_nsec = valid.nanoseconds;
  state_.stale_opens.NoteLookup(call.header().pid, 0);
  call.Reply({AsBytes(out)});
  return true;
}

// The kernel has checked that the caller may search the directory.
bool EntryReplies::ReplyKnownAbsent(Call& call, const InodeView& directory,
                                    const DentryName& dentry) {
  if (!state_.kernel.default_permissions) return false;
  if (dentry.name.size() > NAME_MAX || wire::IsDotName(dentry.name)) return false;
  const client::Promise names =
      state_.caches.whole_directories.PromiseOfAbsence(directory.handle, dentry.name, Loop::Now());
  return names && ReplyAbsent(call, dentry, names);
}

void EntryReplies::Moved(const DentryName& from, const DentryName& to, bool exchanged,
                         const client::Promise& names) {
  const absl::Time now = Loop::Now();
  for (const DirectoryNames::Move& move :
       state_.caches.directory_names.Moved(from, to, exchanged, now)) {
    state_.caches.inodes.Moved(move.nodeid, move.from, move.to, now);
    if (!state_.caches.rules.offered()) continue;
    const std::optional<InodeView> parent = state_.caches.inodes.Find(move.to.parent);
    if (!parent.has_value() || !state_.caches.rules.IsGood(names, parent->handle))
      DropName(move.to);
  }
}

void EntryReplies::Removed(const std::optional<InodeView>& node, const DentryName& dentry) {
  if (!node.has_value()) return;
  state_.caches.inodes.With(node->nodeid, [&](Inode* inode) {
    if (inode != nullptr) inode->names.Removed(dentry);
  });
}

void EntryReplies::DropName(const DentryName& dentry) {
  if (!state_.caches.directory_names.Find(dentry.parent, dentry.name, Loop::Now()).has_value())
    return;
  if (state_.notifier == nullptr) return;
  state_.notifier->DropName(dentry.parent, dentry.name, KernelChannel::NameDrop::kExpire, [] {});
}

void EntryReplies::Undo(uint64_t nodeid) {
  state_.caches.attributes.NotAccepted(nodeid);
  ForgetLookups(state_, nodeid, 1);
}

void EntryReplies::Reply(Call& call, const absl::StatusOr<client::Node>& node,
                         const DentryName& dentry) {
  // The kernel may keep from before that a new name is absent.
  const bool makes = call.header().opcode != FUSE_LOOKUP;
  if (makes && (!node.ok() || call.answered())) DropName(dentry);
  if (!node.ok()) {
    state_.stale_opens.NoteLookup(call.header().pid, 0);
    call.ReplyStatus(node.status());
    return;
  }
  if (FileTypeBits(node->attributes.object_type) == 0) {
    call.ReplyErrno(EIO);  // the kernel would mark the inode as bad
    return;
  }
  fuse_entry_out out = Entry(call, *node, dentry, call.arrived());
  state_.stale_opens.NoteLookup(call.header().pid, out.nodeid);
  if (!call.Reply({AsBytes(out)})) Undo(out.nodeid);
}

void EntryReplies::ReplyNew(Call& call, const absl::StatusOr<client::Node>& node,
                            const DentryName& dentry) {
  const uint64_t directory = dentry.parent;
  Reply(call, node, dentry);
  if (node.ok()) NoteNew(state_, state_.caches.inodes.NodeOf(node->handle), directory, Loop::Now());
}

}  // namespace dafs::fuse
