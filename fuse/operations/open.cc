// Open files: OPEN, CREATE, TMPFILE, RELEASE. Spec: 6.5.7, 6.5.24; WIRE 9.4, R15 (OPEN_HANDLE).
#include <fcntl.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "fuse/kernel/attributes.h"
#include "fuse/kernel/errno.h"
#include "fuse/operations/directory_change.h"
#include "fuse/operations/operations.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

bool Writes(uint32_t flags) { return (ShareOf(flags) & wire::kShareWrite) != 0; }
bool Appends(uint32_t flags) { return (flags & O_APPEND) != 0 && Writes(flags); }

// Whether an open bypasses the kernel's page cache: with O_DIRECT, or to append. The kernel would
// cache appended data at its own idea of the end, and return it from there until it requests the
// size. Kernels before 6.6 refuse shared mappings of such an open.
bool UsesDirectIo(uint32_t flags) { return (flags & O_DIRECT) != 0 || Appends(flags); }

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

// FUSE's OPEN has a node, DAFS's OPEN a name. OPEN_HANDLE opens a file by its handle. If the server
// does not have it, the last known name of the node is opened, and the result is used only if it is
// the same file. Otherwise the file is used without an open at the server (state id zero).
dat::Task<absl::StatusOr<client::OpenFile>> Operations::OpenNode(const client::Identity& who,
                                                                 const InodeView& node,
                                                                 uint32_t flags,
                                                                 std::string owner) {
  client::OpenRequest request;
  request.owner = std::move(owner);
  request.share_access = ShareOf(flags);
  dat::Task<absl::StatusOr<client::OpenFile>> opening =
      flags & kOpenForExec
          ? files_.OpenForExecution(who, node.handle, request.owner)
          : files_.OpenByHandle(who, node.handle, request.share_access, request.owner);
  absl::StatusOr<client::OpenFile> file = co_await opening;
  if (wire::DafsFromStatus(file.status()) == wire::DafsStatus::kPerm && Appends(flags)) {
    dat::Task<absl::StatusOr<client::OpenFile>> again =
        OpenToAppend(who, node, flags, file.status());
    file = co_await again;
    co_return file;
  }
  if (!file.ok() || !file->state_id.is_zero()) co_return file;
  Place place = state_.inodes.PlaceOf(node.nodeid);
  std::optional<InodeView> parent = state_.inodes.Find(place.parent);
  if (place.name.empty() || !parent) co_return file;
  request.directory = parent->handle;
  request.name = place.name;
  absl::StatusOr<client::OpenFile> named = co_await files_.Open(who, request);
  if (!named.ok()) {
    if (IsRefusal(named.status())) co_return named;
    co_return file;
  }
  if (named->handle == node.handle) co_return named;
  absl::Status closed = co_await files_.Close(who, named->handle, named->state_id);
  closed.IgnoreError();
  co_return file;
}

// An append-only file (chattr +a at the server) cannot be opened there for writing, because OPEN
// does not say that the caller only appends. It is used without an open at the server, which checks
// each append. For an immutable file, ACCESS does not grant kAccessExtend, and the open fails.
dat::Task<absl::StatusOr<client::OpenFile>> Operations::OpenToAppend(const client::Identity& who,
                                                                     const InodeView& node,
                                                                     uint32_t flags,
                                                                     absl::Status refused) {
  uint32_t needed = wire::kAccessExtend;
  if ((ShareOf(flags) & wire::kShareRead) != 0) needed |= wire::kAccessRead;
  dat::Task<absl::StatusOr<uint32_t>> asking = files_.Access(who, node.handle, needed);
  const absl::StatusOr<uint32_t> access = co_await asking;
  if (!access.ok() || (*access & needed) != needed) co_return refused;
  dat::Task<absl::StatusOr<wire::FileAttributes>> looking = files_.GetAttributes(who, node.handle);
  absl::StatusOr<wire::FileAttributes> attributes = co_await looking;
  if (!attributes.ok()) co_return attributes.status();
  client::OpenFile file;
  file.handle = node.handle;
  file.attributes = *std::move(attributes);
  co_return file;
}

fuse_open_out Operations::TakeOpen(const client::OpenFile& file, uint64_t nodeid, uint32_t flags,
                                   Caller who, bool keep_cache) {
  auto open = std::make_shared<OpenState>();
  open->nodeid = nodeid;
  open->handle = file.handle;
  open->state_id = file.state_id;
  open->flags = flags;
  open->by_own_right = who->uid == 0 || (file.attributes.has(wire::kFattrOwner) &&
                                         file.attributes.owner == std::to_string(who->uid));
  open->opener = std::move(who);
  open->writes = state_.inodes.WritesOf(nodeid);
  open->owner_changes = open->writes->owner_changes();
  open->errors = open->writes->SampleErrors();
  if (file.attributes.has(wire::kFattrChange)) open->change = file.attributes.change;
  open->mode = file.attributes.mode;
  open->owner = file.attributes.owner;
  open->owner_group = file.attributes.owner_group;
  fuse_open_out out = {};
  out.fh = state_.open_files.Add(std::move(open));
  if (UsesDirectIo(flags)) {
    out.open_flags |= FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
  }
  if (keep_cache) out.open_flags |= FOPEN_KEEP_CACHE;
  // Nothing is written through a read-only open, so close(2) needs no FLUSH, unless the server
  // keeps record locks: close(2) of any descriptor of the file releases them.
  if (!Writes(flags) && !PosixAtServer(state_.options)) out.open_flags |= FOPEN_NOFLUSH;
  return out;
}

// Closes an open at the server. If its opener may not write the file without this open, commits its
// data first: if the server lost that data later, it could not be written again.
dat::Task<void> Operations::CloseState(std::shared_ptr<OpenState> open) {
  const bool may_write_again =
      open->by_own_right &&
      (open->opener->uid == 0 || open->owner_changes == open->writes->owner_changes());
  if (!may_write_again && Writes(open->flags) && open->writes->uncommitted()) {
    dat::Task<void> committing = commits_.CommitNow(open);
    co_await committing;
  }
  absl::Status closed =
      co_await files_.Close(*open->opener, open->handle, open->state_id, /*can_wait=*/true);
  closed.IgnoreError();  // no caller waits for it; the open ends with the lease
}

// Returns a recently closed open of the same kind, if the file has not changed since it was opened:
// then the same users may still open it.
dat::Task<std::optional<client::OpenFile>> Operations::OpenAgain(uint64_t nodeid,
                                                                 const client::Identity& who,
                                                                 uint32_t flags) {
  std::optional<IdleOpens::Kept> kept =
      state_.idle_opens.Take(nodeid, who, flags, dat::Loop::Now());
  if (!kept.has_value()) co_return std::nullopt;
  const OpenState& open = *kept->open;
  client::OpenFile file;
  file.handle = open.handle;
  file.state_id = open.state_id;
  bool known = false;
  if (!state_.inodes.TouchedSince(nodeid, kept->since)) {
    dat::Task<absl::StatusOr<wire::FileAttributes>> asking = files_.GetAttributes(who, open.handle);
    absl::StatusOr<wire::FileAttributes> attributes = co_await asking;
    known = attributes.ok();
    if (known) file.attributes = *std::move(attributes);
  }
  if (known && IsAsOpened(open, file.attributes) && files_.IsOpen(open.state_id)) co_return file;
  dat::Start(CloseState(std::move(kept->open)));
  CloseAll(state_.idle_opens.HasChanged(nodeid));
  co_return std::nullopt;
}

// Looks up `places`, and records which of them still lead to the node. `change` is the CHANGE that
// the node had before; nullopt: use the CHANGE that the lookup returns.
dat::Task<void> Operations::LookAtNames(Caller who, InodeView node, Places places,
                                        std::optional<uint64_t> change,
                                        std::shared_ptr<Looking> looking) {
  for (const Place& place : places) {
    const std::optional<InodeView> parent = state_.inodes.Find(place.parent);
    if (!parent.has_value()) continue;
    const absl::Time asked = dat::Loop::Now();
    dat::Task<absl::StatusOr<client::Node>> look = files_.Lookup(*who, parent->handle, place.name);
    absl::StatusOr<client::Node> there = co_await look;
    const wire::DafsStatus status = wire::DafsFromStatus(there.status());
    if (there.ok() && there->handle == node.handle) {
      state_.inodes.ConfirmName(node.nodeid, place, change.value_or(there->attributes.change),
                                asked);
    } else if (there.ok() || status == wire::DafsStatus::kNoEnt ||
               status == wire::DafsStatus::kStale) {
      state_.inodes.LoseName(node.nodeid, place);
    }
  }
  if (looking != nullptr) looking->done.Set(true);
}

// After changes or renames by this mount, the CHANGE of a file does not show whether another client
// gave its name to another file. Therefore starts to look up the file's names, in parallel with the
// OPEN. Returns null if no name must be looked up.
std::shared_ptr<Operations::Looking> Operations::LookAtLikelyOld(const Caller& who,
                                                                 const InodeView& node) {
  Places places = state_.inodes.NamesLikelyOld(node.nodeid, dat::Loop::Now());
  if (places.empty()) return nullptr;
  auto looking = std::make_shared<Looking>();
  const client::Files::Gathering gathering(files_, true);  // the OPEN follows at once
  dat::Start(LookAtNames(who, node, std::move(places), std::nullopt, looking));
  return looking;
}

// Whether a file or directory that was opened has lost a name by which the kernel may have opened
// it. The kernel caches names for a while; meanwhile the name may have been removed, or given to
// another file.
dat::Task<bool> Operations::HasLostName(const Caller& who, const InodeView& node,
                                        const wire::FileAttributes& attributes) {
  if (attributes.has(wire::kFattrNumLinks) && attributes.num_links == 0) co_return true;
  if (!attributes.has(wire::kFattrChange)) co_return false;
  Places places = state_.inodes.NamesNotSeenAt(node.nodeid, attributes.change, dat::Loop::Now());
  if (!places.empty()) {
    dat::Task<void> looking = LookAtNames(who, node, std::move(places), attributes.change, nullptr);
    co_await looking;
  }
  co_return state_.inodes.AnyNameLost(node.nodeid, attributes.change, dat::Loop::Now());
}

dat::Task<void> Operations::Open(Call& call) {
  RequestReader in = call.reader();
  auto request = in.Take<fuse_open_in>();
  std::optional<InodeView> node = NodeOf(call, in);
  if (!node) co_return;
  Caller who = CallerOf(call);
  const absl::Time asked_at = dat::Loop::Now();
  const InodeTable::Moment asked = state_.inodes.MomentOf(call.nodeid());
  const bool comes_back =
      state_.found_gone.ComesBack(call.header().pid, call.nodeid(), call.arrived());
  const std::shared_ptr<Looking> looking = LookAtLikelyOld(who, *node);
  dat::Task<std::optional<client::OpenFile>> using_again =
      OpenAgain(call.nodeid(), *who, request.flags);
  std::optional<client::OpenFile> again = co_await using_again;
  absl::StatusOr<client::OpenFile> file;
  if (again.has_value()) {
    file = *std::move(again);
  } else {
    dat::Task<absl::StatusOr<client::OpenFile>> opening =
        OpenNode(*who, *node, request.flags, state_.NewOwner());
    file = co_await opening;
  }
  if (!file.ok()) {
    if (ErrnoFromStatus(file.status()) == ESTALE && !comes_back) {
      LookElsewhere(call);
    } else {
      call.ReplyStatus(file.status());
    }
    co_return;
  }
  if (looking != nullptr) co_await looking->done;
  dat::Task<bool> losing = HasLostName(who, *node, file->attributes);
  const bool lost_name = co_await losing;
  if (lost_name && !comes_back) {
    LookElsewhere(call);
    absl::Status closed =
        co_await files_.Close(*who, file->handle, file->state_id, /*can_wait=*/true);
    closed.IgnoreError();
    co_return;
  }
  // Close-to-open: an open sees everything that was written and closed before. The caller uses the
  // node until this call is answered, so the notification does not block.
  const bool has_change = file->attributes.has(wire::kFattrChange);
  const uint64_t change = file->attributes.change;
  bool current = has_change && state_.inodes.KernelIsCurrent(call.nodeid(), change);
  if (!current && !call.answered()) ForgetAttributes(call.nodeid());
  if (has_change) state_.inodes.KeepFresh(call.nodeid(), asked, file->attributes, asked_at);
  bool keep_cache = has_change && state_.inodes.PagesAreCurrent(call.nodeid(), change);
  fuse_open_out out = TakeOpen(*file, call.nodeid(), request.flags, who, keep_cache);
  if (!call.Reply({AsBytes(out)})) {
    if (std::shared_ptr<OpenState> open = state_.open_files.Remove(out.fh)) {
      co_await CloseState(open);
    }
  }
}

dat::Task<void> Operations::Create(Call& call) {
  RequestReader in = call.reader();
  auto create = in.Take<fuse_create_in>();
  std::string_view name = in.TakeName();
  std::optional<InodeView> parent = NodeOf(call, in);
  if (!parent) co_return;
  Caller who = CallerOf(call);
  client::OpenRequest request;
  request.directory = parent->handle;
  request.name = std::string(name);
  request.share_access = ShareOf(create.flags);
  request.owner = state_.NewOwner();
  request.create = true;
  // GUARDED sets mode and owner when it creates the file; EXCLUSIVE needs a second request for
  // that.
  request.create_mode =
      create.flags & O_EXCL ? wire::CreateMode::kGuarded : wire::CreateMode::kUnchecked;
  uint32_t mode = co_await ModeOfNew(*who, *parent, create.mode, create.umask);
  request.attributes = NewFileAttributes(mode);
  request.truncate = (create.flags & O_TRUNC) != 0;
  DirectoryChange change(*this, call.nodeid());
  absl::StatusOr<client::OpenFile> file = co_await files_.Open(*who, request, change.after());
  change.End();
  if (!file.ok()) {
    // The kernel expected that the name does not exist. With ESTALE it looks the name up again, and
    // then follows the link or opens the FIFO that another client has created.
    int error = ErrnoFromStatus(file.status());
    if (error == ELOOP) error = ESTALE;
    if (error == EINVAL || (error == EPERM && Appends(create.flags))) {
      absl::StatusOr<client::Node> there = co_await files_.Lookup(*who, parent->handle, name);
      const bool is_file = there.ok() && there->attributes.object_type == wire::ObjectType::kReg;
      if (there.ok() && is_file == (error == EPERM)) error = ESTALE;  // OPEN handles it
    }
    if (error == ESTALE) {
      LookElsewhere(call);
    } else {
      call.ReplyErrno(error);
    }
    co_return;
  }
  Place place{call.nodeid(), request.name};
  co_await ReplyCreated(call, *file, place, create.flags, who);
}

dat::Task<void> Operations::ReplyCreated(Call& call, const client::OpenFile& file, Place place,
                                         uint32_t flags, Caller who) {
  client::Node node{file.handle, file.attributes};
  fuse_entry_out entry = Entry(call, node, place, call.arrived());
  if (file.created) NoteNew(entry.nodeid, call.nodeid(), dat::Loop::Now());
  fuse_open_out out = TakeOpen(file, entry.nodeid, flags, who, false);
  if (!call.Reply({AsBytes(entry), AsBytes(out)})) {
    state_.inodes.NotTold(entry.nodeid);
    state_.inodes.Forget(entry.nodeid, 1);
    if (std::shared_ptr<OpenState> open = state_.open_files.Remove(out.fh)) {
      co_await CloseState(open);
    }
  }
}

// O_TMPFILE. The kernel itself enforces O_EXCL, which forbids giving the file a name later.
dat::Task<void> Operations::Tmpfile(Call& call) {
  RequestReader in = call.reader();
  auto create = in.Take<fuse_create_in>();
  std::optional<InodeView> parent = NodeOf(call, in);
  if (!parent) co_return;
  Caller who = CallerOf(call);
  client::OpenRequest request;
  request.directory = parent->handle;
  request.share_access = ShareOf(create.flags);
  request.owner = state_.NewOwner();
  uint32_t mode = co_await ModeOfNew(*who, *parent, create.mode, create.umask);
  request.attributes = NewFileAttributes(mode);
  absl::StatusOr<client::OpenFile> file = co_await files_.OpenUnlinked(*who, request);
  if (!file.ok()) {
    call.ReplyStatus(file.status());
    co_return;
  }
  Place nowhere{call.nodeid(), ""};
  co_await ReplyCreated(call, *file, nowhere, create.flags, who);
}

dat::Task<void> Operations::Release(Call& call) {
  RequestReader in = call.reader();
  auto release = in.Take<fuse_release_in>();
  std::shared_ptr<OpenState> open = in.ok() ? state_.open_files.Remove(release.fh) : nullptr;
  // The kernel has kept or dropped its pages as the answer to OPEN said, so none is older than that
  // open.
  if (open != nullptr && open->change.has_value()) {
    state_.inodes.PagesAre(open->nodeid, *open->change);
  }
  if (open != nullptr && !Writes(open->flags)) state_.inodes.DropFresh(open->nodeid);
  // Answered before the CLOSE: no program waits for it, and it commits nothing.
  call.ReplyOk();
  if (open == nullptr) co_return;
  co_await Settled(open->nodeid);  // pending writes use this open
  std::vector<LockOwners::Ended> ended = state_.lock_owners.EndHandle(release.fh);
  for (const LockOwners::Ended& owner : ended) {
    dat::Task<void> ending = EndOwner(owner);
    co_await ending;
  }
  open = state_.idle_opens.Keep(std::move(open), dat::Loop::Now());
  CloseIdleLater();
  if (open != nullptr) co_await CloseState(open);
}

void Operations::CloseAll(std::vector<IdleOpens::Open> opens) {
  for (IdleOpens::Open& open : opens) dat::Start(CloseState(std::move(open)));
}

// Sets a timer to close idle opens that were not used again, of any worker.
void Operations::CloseIdleLater() {
  if (idle_timer_ != 0) return;
  const std::optional<absl::Time> when = state_.idle_opens.NextOld();
  if (!when.has_value()) return;
  idle_timer_ = files_.loop().RunAfter(*when - dat::Loop::Now(), [this] {
    idle_timer_ = 0;
    CloseAll(state_.idle_opens.TakeOld(dat::Loop::Now()));
    CloseIdleLater();
  });
}

}  // namespace dafs::fuse
