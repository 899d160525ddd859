// The caller and the nodes that a request names, and the answers if one of them is not valid.
// Belongs to the worker's thread. Only CallerOf and TakeNewGroups may block, for the time that
// IdentityCache takes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "client/state/records/identity.h"
#include "fuse/cache/inode_table.h"
#include "fuse/kernel/request_reader.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/request/call.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

// Shared by the call, the requests that it makes, and the identity cache.
using CallerIdentity = std::shared_ptr<const client::Identity>;

// Whether the caller may have a session, if each user has one: 0, or the errno that says why not.
int ErrnoOfEntry(MountState& state, const Call& call);
// Returns the caller's identity. Its groups are current, unless the request only looks: then
// Groups::kRecent.
CallerIdentity CallerOf(MountState& state, const Call& call);
// Reads the groups of `user` again. Returns true if they changed, so that a retry may succeed.
bool TakeNewGroups(MountState& state, const Call& call, CallerIdentity& user);

// Returns the node of a request. If it is unknown, answers ESTALE and returns nullopt.
std::optional<InodeView> NodeOf(const MountState& state, Call& call, uint64_t nodeid);
std::optional<InodeView> NodeOf(const MountState& state, Call& call);
// Likewise, after all of the request was taken from `in`. A malformed request is answered with an
// error, too.
std::optional<InodeView> NodeOf(const MountState& state, Call& call, const RequestReader& in);

// Replies ESTALE, after which the kernel walks the path once again. It does so for an open, but not
// for a listing, so OPENDIR must find out that a directory has lost its name. A thread that retries
// with the same directory uses no path (its current directory, a descriptor). Then it may open the
// directory, like a removed one on a local file system. OPEN and LINK of a file that has lost its
// name work likewise (StaleOpenTracker).
void ReplyStale(MountState& state, Call& call, uint64_t nodeid);
// The kernel drops `count` lookups of the node. Returns the file if it forgets the node and the
// file had been opened.
std::optional<wire::FileHandle> ForgetLookups(MountState& state, uint64_t nodeid, uint64_t count);
// If `status` says that the server no longer has the node, cached links to it and the kernel's
// attributes of it are no longer used.
void NoteGone(MountState& state, uint64_t nodeid, const absl::Status& status);

}  // namespace dafs::fuse
