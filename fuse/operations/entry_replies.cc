#include "fuse/operations/entry_replies.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include "fuse/kernel/attributes.h"
#include "fuse/operations/new_objects.h"
#include "runtime/loop.h"

namespace dafs::fuse {

fuse_entry_out EntryReplies::Entry(const Call& call, const client::Node& node, const Place& place,
                                   absl::Time asked) {
  const absl::Time now = Loop::Now();
  const uint32_t thread = call.header().opcode == FUSE_LOOKUP ? call.header().pid : 0;
  const Asker asker = {thread, now};
  fuse_entry_out out = {};
  out.nodeid = state_.inodes.Remember(node.handle, node.attributes, place, asker);
  out.generation = state_.inodes.GenerationOf(out.nodeid);
  // The node may come from a listing that was read for an earlier request.
  const absl::Duration age = asked < call.arrived() ? now - asked : absl::ZeroDuration();
  const absl::Duration good_for = attributes_.Validity(call, out.nodeid, node.attributes) - age;
  const KernelTime valid = Validity(std::max(good_for, absl::ZeroDuration()));
  out.attr_valid = valid.seconds;
  out.attr_valid_nsec = valid.nanoseconds;
  if (state_.options.lookup_cache != LookupCache::kNone && good_for > absl::ZeroDuration()) {
    CacheName(out, node, place, asked, now + good_for);
  }
  out.attr = KernelAttributes(node.attributes, out.nodeid);
  out.attr.ino = state_.inodes.NumberIn(node.handle.fshandle, out.attr.ino);
  return out;
}

// The kernel may cache the name until `until`, as long as the attributes in `entry`.
void EntryReplies::CacheName(fuse_entry_out& entry, const client::Node& node, const Place& place,
                             absl::Time asked, absl::Time until) {
  // The kernel follows a link, and opens a FIFO, a socket or a device, without a request. Such a
  // name is not cached, so that an open finds an object that another client put there.
  const wire::ObjectType type = node.attributes.object_type;
  if (type != wire::ObjectType::kReg && type != wire::ObjectType::kDir) {
    state_.known_links.Told(place, {entry.nodeid, asked, until});
    return;
  }
  // Entry and attributes get the same timeout, so that the kernel revalidates both with one
  // request.
  entry.entry_valid = entry.attr_valid;
  entry.entry_valid_nsec = entry.attr_valid_nsec;
  // The kernel's timeout begins only when the thread that made the request has woken up.
  constexpr absl::Duration kTakenWithin = absl::Seconds(1);
  if (!place.name.empty()) {
    state_.names.Sent(entry.nodeid, place, node.attributes.change, asked, until + kTakenWithin);
  }
}

void EntryReplies::Undo(uint64_t nodeid) {
  state_.attributes.NotAccepted(nodeid);
  state_.inodes.Forget(nodeid, 1);
}

bool EntryReplies::ReplyKnownLink(Call& call, const Place& place) {
  const absl::Time now = Loop::Now();
  const KnownLinks::Link link = state_.known_links.Find(place, now);
  if (link.nodeid == 0 || state_.names.own_moves().AnySince(link.asked)) return false;
  if (!callers_.OnlyLooks(call.header().pid)) return false;
  const std::optional<AttributeCache::Again> again =
      state_.attributes.LookUpAgain(link.nodeid, now);
  if (!again.has_value()) return false;
  fuse_entry_out out = {};
  out.nodeid = link.nodeid;
  out.generation = state_.inodes.GenerationOf(link.nodeid);
  const KernelTime valid = Validity(std::min(again->valid_for, link.until - now));
  out.attr_valid = valid.seconds;
  out.attr_valid_nsec = valid.nanoseconds;
  out.attr = KernelAttributes(again->attributes, out.nodeid);
  out.attr.ino = state_.inodes.NumberOf(out.nodeid, out.attr.ino);
  state_.found_gone.Finds(call.header().pid, out.nodeid);
  if (!call.Reply({AsBytes(out)})) state_.inodes.Forget(out.nodeid, 1);
  return true;
}

void EntryReplies::Reply(Call& call, const absl::StatusOr<client::Node>& node, const Place& place) {
  if (!node.ok()) {
    state_.found_gone.Finds(call.header().pid, 0);
    call.ReplyStatus(node.status());
    return;
  }
  if (FileTypeBits(node->attributes.object_type) == 0) {
    call.ReplyErrno(EIO);  // the kernel would mark the inode as bad
    return;
  }
  fuse_entry_out out = Entry(call, *node, place, call.arrived());
  state_.found_gone.Finds(call.header().pid, out.nodeid);
  if (!call.Reply({AsBytes(out)})) Undo(out.nodeid);
}

void EntryReplies::ReplyNew(Call& call, const absl::StatusOr<client::Node>& node,
                            const Place& place) {
  const uint64_t directory = place.parent;
  Reply(call, node, place);
  if (node.ok()) NoteNew(state_, state_.inodes.NodeOf(node->handle), directory, Loop::Now());
}

}  // namespace dafs::fuse
