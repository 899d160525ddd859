#include "fuse/operations/operations.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "fuse/kernel/attributes.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

// Whether the request neither changes nor opens anything.
bool OnlyLooks(uint32_t opcode) {
  switch (opcode) {
    case FUSE_LOOKUP:
    case FUSE_GETATTR:
    case kStatx:
    case FUSE_READLINK:
    case FUSE_STATFS:
      return true;
    default:
      return false;
  }
}

}  // namespace

Operations::Op Operations::OperationOf(uint32_t opcode) {
  switch (opcode) {
    case FUSE_LOOKUP:
      return &Operations::Lookup;
    case FUSE_GETATTR:
    case kStatx:
      return &Operations::Getattr;
    case FUSE_SETATTR:
      return &Operations::Setattr;
    case FUSE_READLINK:
      return &Operations::Readlink;
    case FUSE_SYMLINK:
      return &Operations::Symlink;
    case FUSE_MKNOD:
      return &Operations::Mknod;
    case FUSE_MKDIR:
      return &Operations::Mkdir;
    case FUSE_UNLINK:
    case FUSE_RMDIR:  // the kernel has checked the type; REMOVE serves both
      return &Operations::Unlink;
    case FUSE_RENAME:
      return &Operations::Rename;
    case FUSE_RENAME2:
      return &Operations::Rename2;
    case FUSE_LINK:
      return &Operations::Link;
    case FUSE_OPEN:
      return &Operations::Open;
    case FUSE_CREATE:
      return &Operations::Create;
    case FUSE_READ:
      return &Operations::Read;
    case FUSE_WRITE:
      return &Operations::Write;
    case FUSE_FALLOCATE:
      return &Operations::Fallocate;
    case FUSE_LSEEK:
      return &Operations::Lseek;
    case FUSE_COPY_FILE_RANGE:
    case kCopyFileRange64:
      return &Operations::CopyFileRange;
    case FUSE_TMPFILE:
      return &Operations::Tmpfile;
    case FUSE_STATFS:
      return &Operations::Statfs;
    case FUSE_RELEASE:
      return &Operations::Release;
    case FUSE_GETLK:
      return &Operations::Getlk;
    case FUSE_SETLK:
    case FUSE_SETLKW:
      return &Operations::Setlk;
    case FUSE_FLUSH:
      return &Operations::Flush;
    case FUSE_FSYNC:
      return &Operations::Fsync;
    case FUSE_OPENDIR:
      return &Operations::Opendir;
    case FUSE_READDIR:
    case FUSE_READDIRPLUS:
      return &Operations::Readdir;
    case FUSE_RELEASEDIR:
      return &Operations::Releasedir;
    case FUSE_FSYNCDIR:
      return &Operations::Fsyncdir;
    case FUSE_GETXATTR:
      return &Operations::Getxattr;
    case FUSE_SETXATTR:
      return &Operations::Setxattr;
    case FUSE_LISTXATTR:
      return &Operations::Listxattr;
    case FUSE_REMOVEXATTR:
      return &Operations::Removexattr;
    case FUSE_ACCESS:
      return &Operations::Access;
    default:
      return nullptr;
  }
}

dat::Task<void> Operations::Serve(std::unique_ptr<Call> call, std::function<void()> done) {
  const uint32_t opcode = call->header().opcode;
  Op operation = OperationOf(opcode);
  state_.inodes.Accepted(call->nodeid(), call->header().pid);
  if (!state_.behind.idle() && WaitsForWrites(opcode)) {
    // Only the reply to a CREATE shows which file it opened, and perhaps truncated.
    co_await Settled(opcode == FUSE_CREATE ? BehindTable::kAnyNode : call->nodeid());
  }
  if (operation == nullptr) {
    call->ReplyErrno(ENOSYS);
  } else if (!call->answered()) {  // its caller was killed while it waited
    co_await (this->*operation)(*call);
  }
  call.reset();
  done();
}

void Operations::Forget(uint64_t nodeid, RequestReader in) {
  auto forget = in.Take<fuse_forget_in>();
  if (in.ok()) ForgetNode(nodeid, forget.nlookup);
}

void Operations::ForgetNode(uint64_t nodeid, uint64_t count) {
  std::optional<InodeTable::Gone> gone = state_.inodes.Forget(nodeid, count);
  if (gone.has_value()) commits_.DropIfRemoved(gone->handle, std::move(gone->writes));
}

void Operations::BatchForget(RequestReader in) {
  auto batch = in.Take<fuse_batch_forget_in>();
  for (uint32_t i = 0; i < batch.count && in.ok(); ++i) {
    auto one = in.Take<fuse_forget_one>();
    if (in.ok()) ForgetNode(one.nodeid, one.nlookup);
  }
}

Operations::Caller Operations::CallerOf(const Call& call) {
  const fuse_in_header& header = call.header();
  Groups groups = OnlyLooks(header.opcode) ? Groups::kRecent : Groups::kNow;
  return state_.identities.Get(header.uid, header.gid, header.pid, groups, dat::Loop::Now());
}

bool Operations::TakeNewGroups(const Call& call, Caller& who) {
  const fuse_in_header& header = call.header();
  Caller fresh =
      state_.identities.Get(header.uid, header.gid, header.pid, Groups::kNow, dat::Loop::Now());
  bool changed = !(*fresh == *who);
  who = std::move(fresh);
  return changed;
}

std::optional<InodeView> Operations::NodeOf(Call& call, uint64_t nodeid) {
  std::optional<InodeView> node = state_.inodes.Find(nodeid);
  if (!node.has_value()) call.ReplyErrno(ESTALE);
  return node;
}

std::optional<InodeView> Operations::NodeOf(Call& call, const RequestReader& in) {
  if (in.ok()) return NodeOf(call);
  call.ReplyErrno(in.error());
  return std::nullopt;
}

absl::Duration Operations::Validity(const Call& call, uint64_t nodeid,
                                    const wire::FileAttributes& attributes) {
  return state_.inodes.Told(nodeid, attributes, dat::Loop::Now(),
                            {call.header().pid, call.arrived()});
}

void Operations::Touch(uint64_t nodeid) { state_.inodes.Touch(nodeid, dat::Loop::Now()); }

void Operations::TouchData(uint64_t nodeid) {
  if (state_.inodes.Touch(nodeid, dat::Loop::Now())) ForgetAttributes(nodeid);
}

InodeTable::Change Operations::BeginWrite(uint64_t nodeid) {
  const InodeTable::Change change = state_.inodes.BeginChange(nodeid, dat::Loop::Now());
  if (change.shows_set_id) ForgetAttributes(nodeid);
  return change;
}

void Operations::EndWrite(WritePiece& piece, wire::FileAttributes after) {
  const uint64_t nodeid = piece.open->nodeid;
  if (state_.inodes.EndChange(nodeid, piece.change, std::move(after), dat::Loop::Now())) {
    ForgetAttributes(nodeid);  // the kernel may have requested them during the write
  }
}

void Operations::ForgetAttributes(uint64_t nodeid) {
  channel_.ForgetAttributes(nodeid);
  state_.inodes.KernelForgot(nodeid);
}

fuse_entry_out Operations::Entry(const Call& call, const client::Node& node, const Place& place,
                                 absl::Time asked) {
  const absl::Time now = dat::Loop::Now();
  const uint32_t thread = call.header().opcode == FUSE_LOOKUP ? call.header().pid : 0;
  const Asker asker = {thread, now};
  fuse_entry_out out = {};
  out.nodeid = state_.inodes.Remember(node.handle, node.attributes, place, asker);
  out.generation = state_.inodes.GenerationOf(out.nodeid);
  // The node may come from a listing that was read for an earlier request.
  const absl::Duration age = asked < call.arrived() ? now - asked : absl::ZeroDuration();
  const absl::Duration good_for = Validity(call, out.nodeid, node.attributes) - age;
  KernelTime valid = fuse::Validity(std::max(good_for, absl::ZeroDuration()));
  out.attr_valid = valid.seconds;
  out.attr_valid_nsec = valid.nanoseconds;
  // The kernel follows a link, and opens a FIFO, a socket or a device, without a request. Such a
  // name is not cached, so that an open finds an object that another client put there.
  const wire::ObjectType type = node.attributes.object_type;
  const bool asks_at_open = type == wire::ObjectType::kReg || type == wire::ObjectType::kDir;
  const bool may_keep =
      state_.options.lookup_cache != LookupCache::kNone && good_for > absl::ZeroDuration();
  if (may_keep && !asks_at_open) {
    state_.known_links.Told(place, {out.nodeid, asked, now + good_for});
  } else if (may_keep) {
    // Entry and attributes get the same timeout, so that the kernel revalidates both with one
    // request.
    out.entry_valid = valid.seconds;
    out.entry_valid_nsec = valid.nanoseconds;
    // The kernel's timeout begins only when the thread that made the request has woken up.
    constexpr absl::Duration kTakenWithin = absl::Seconds(1);
    if (!place.name.empty()) {
      state_.inodes.NameTold(out.nodeid, place, node.attributes.change, asked,
                             now + good_for + kTakenWithin);
    }
  }
  out.attr = KernelAttributes(node.attributes, out.nodeid);
  out.attr.ino = state_.inodes.NumberIn(node.handle.fshandle, out.attr.ino);
  return out;
}

bool Operations::ReplyKnownLink(Call& call, const Place& place) {
  const absl::Time now = dat::Loop::Now();
  const KnownLinks::Link link = state_.known_links.Find(place, now);
  if (link.nodeid == 0 || state_.inodes.own_moves().AnySince(link.asked)) return false;
  if (!callers_.OnlyLooks(call.header().pid)) return false;
  const std::optional<InodeTable::Again> again = state_.inodes.LookUpAgain(link.nodeid, now);
  if (!again.has_value()) return false;
  fuse_entry_out out = {};
  out.nodeid = link.nodeid;
  out.generation = state_.inodes.GenerationOf(link.nodeid);
  const KernelTime valid = fuse::Validity(std::min(again->valid_for, link.until - now));
  out.attr_valid = valid.seconds;
  out.attr_valid_nsec = valid.nanoseconds;
  out.attr = KernelAttributes(again->attributes, out.nodeid);
  out.attr.ino = state_.inodes.NumberOf(out.nodeid, out.attr.ino);
  state_.found_gone.Finds(call.header().pid, out.nodeid);
  if (!call.Reply({AsBytes(out)})) state_.inodes.Forget(out.nodeid, 1);
  return true;
}

void Operations::NoteGone(uint64_t nodeid, const absl::Status& status) {
  if (wire::DafsFromStatus(status) == wire::DafsStatus::kStale) state_.inodes.NotTold(nodeid);
}

uint64_t Operations::ReplyEntry(Call& call, const absl::StatusOr<client::Node>& node,
                                const Place& place) {
  if (!node.ok()) {
    state_.found_gone.Finds(call.header().pid, 0);
    call.ReplyStatus(node.status());
    return 0;
  }
  if (FileTypeBits(node->attributes.object_type) == 0) {
    call.ReplyErrno(EIO);  // the kernel would mark the inode as bad
    return 0;
  }
  fuse_entry_out out = Entry(call, *node, place, call.arrived());
  state_.found_gone.Finds(call.header().pid, out.nodeid);
  if (!call.Reply({AsBytes(out)})) {
    state_.inodes.NotTold(out.nodeid);
    state_.inodes.Forget(out.nodeid, 1);
    return 0;
  }
  return out.nodeid;
}

void Operations::ReplyNewEntry(Call& call, const absl::StatusOr<client::Node>& node,
                               const Place& place) {
  const uint64_t directory = place.parent;
  ReplyEntry(call, node, place);
  if (node.ok()) NoteNew(state_.inodes.NodeOf(node->handle), directory, dat::Loop::Now());
}

// The kernel drops a directory's attributes when it changes a name there. It requests them again
// for the next path walk if it checks permissions itself, otherwise only when a program does. A
// result of true is counted as paid in the habit.
bool Operations::WantsDirectoryAfterChange() {
  if (state_.options.cache.dir_min <= absl::ZeroDuration()) return false;  // may not be cached
  if (state_.default_permissions) return true;
  const bool wants = directory_stat_habit_.Expected();
  if (wants) directory_stat_habit_.Paid();
  return wants;
}

bool Operations::ReplyFresh(Call& call, const InodeView& node) {
  StatHabit& habit = HabitOf(node);
  std::optional<InodeTable::Fresh> fresh =
      state_.inodes.TakeFresh(call.nodeid(), dat::Loop::Now(), {call.header().pid, call.arrived()});
  if (!fresh.has_value()) {
    if (state_.inodes.ChangedUntold(call.nodeid())) habit.Asked();
    return false;
  }
  if (fresh->of_change) habit.Asked();
  if (!TellAttributes(call, fresh->attributes, fresh->valid_for)) {
    state_.inodes.NotTold(call.nodeid());
  }
  return true;
}

void Operations::ReplyAttributes(Call& call, uint64_t nodeid,
                                 const wire::FileAttributes& attributes) {
  if (!TellAttributes(call, attributes, Validity(call, nodeid, attributes))) {
    state_.inodes.NotTold(nodeid);
  }
}

bool Operations::TellAttributes(Call& call, const wire::FileAttributes& attributes,
                                absl::Duration valid_for) {
  KernelTime valid = fuse::Validity(valid_for);
  if (call.header().opcode == kStatx) {
    StatxOut out = {};
    out.attr_valid = valid.seconds;
    out.attr_valid_nsec = valid.nanoseconds;
    out.stat = KernelStatx(attributes, call.nodeid());
    out.stat.ino = state_.inodes.NumberOf(call.nodeid(), out.stat.ino);
    return call.Reply({AsBytes(out)});
  }
  fuse_attr_out out = {};
  out.attr_valid = valid.seconds;
  out.attr_valid_nsec = valid.nanoseconds;
  out.attr = KernelAttributes(attributes, call.nodeid());
  out.attr.ino = state_.inodes.NumberOf(call.nodeid(), out.attr.ino);
  return call.Reply({AsBytes(out)});
}

}  // namespace dafs::fuse
