#include "fuse/operations/shared/request_nodes.h"

#include <cerrno>
#include <utility>

#include "fuse/kernel/protocol.h"
#include "fuse/request/identity_cache.h"
#include "runtime/loop/loop.h"
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

// With a session for each user, the identity keeps that of its user, for as long as a call, an open
// file or directory, or the owner of a lock has it.
CallerIdentity IdentityOf(MountState& state, const Call& call, Groups groups) {
  const fuse_in_header& header = call.header();
  const absl::Time now = Loop::Now();
  CallerIdentity user = state.identities.Get(header.uid, header.gid, header.pid, groups, now);
  if (state.users == nullptr || header.uid == 0) return user;
  absl::StatusOr<UserClients::Pin> session = state.users->Enter(header.uid, now);
  if (!session.ok()) return user;  // ErrnoOfEntry has refused it, unless another worker was faster
  struct Kept {
    CallerIdentity user;
    UserClients::Pin session;
  };
  auto kept = std::make_shared<Kept>(Kept{std::move(user), *std::move(session)});
  return CallerIdentity(kept, kept->user.get());
}

}  // namespace

int ErrnoOfEntry(MountState& state, const Call& call) {
  if (state.users == nullptr || call.header().uid == 0) return 0;
  const absl::Status entered = state.users->Enter(call.header().uid, Loop::Now()).status();
  if (entered.ok()) return 0;
  return absl::IsResourceExhausted(entered) ? EUSERS : EIO;
}

CallerIdentity CallerOf(MountState& state, const Call& call) {
  return IdentityOf(state, call, OnlyLooks(call.header().opcode) ? Groups::kRecent : Groups::kNow);
}

bool TakeNewGroups(MountState& state, const Call& call, CallerIdentity& user) {
  CallerIdentity fresh = IdentityOf(state, call, Groups::kNow);
  bool changed = !(*fresh == *user);
  user = std::move(fresh);
  return changed;
}

std::optional<InodeView> NodeOf(const MountState& state, Call& call, uint64_t nodeid) {
  std::optional<InodeView> node = state.caches.inodes.Find(nodeid);
  if (!node.has_value()) call.ReplyErrno(ESTALE);
  return node;
}

std::optional<InodeView> NodeOf(const MountState& state, Call& call) {
  return NodeOf(state, call, call.nodeid());
}

std::optional<InodeView> NodeOf(const MountState& state, Call& call, const RequestReader& in) {
  if (in.ok()) return NodeOf(state, call);
  call.ReplyErrno(in.error());
  return std::nullopt;
}

void ReplyStale(MountState& state, Call& call, uint64_t nodeid) {
  state.stale_opens.NoteStale(call.header().pid, nodeid, Loop::Now());
  call.ReplyErrno(ESTALE);
}

std::optional<wire::FileHandle> ForgetLookups(MountState& state, uint64_t nodeid, uint64_t count) {
  std::optional<InodeTable::Forgotten> gone = state.caches.inodes.Forget(nodeid, count);
  if (!gone.has_value()) return std::nullopt;
  state.caches.directory_names.Forget(nodeid, gone->dentry);
  if (gone->directory.has_value()) state.caches.whole_directories.Forget(*gone->directory);
  return std::move(gone->opened);
}

void NoteGone(MountState& state, uint64_t nodeid, const absl::Status& status) {
  if (wire::DafsFromStatus(status) == wire::DafsStatus::kStale)
    state.caches.attributes.NotAccepted(nodeid);
}

}  // namespace dafs::fuse
