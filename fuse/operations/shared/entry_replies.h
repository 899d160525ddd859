// Answers that give the kernel an entry: a name, its node, and how long the kernel may cache both.
// Each entry counts a lookup of the node. If the kernel does not accept the answer, the count is
// undone.
// Belongs to one worker's thread. Nothing blocks.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/state/node.h"
#include "client/state/promises.h"
#include "fuse/cache/directories/dentry_name.h"
#include "fuse/kernel/protocol.h"
#include "fuse/operations/shared/attribute_replies.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/request/call.h"

namespace dafs::fuse {

class EntryReplies {
 public:
  // Both must outlive it.
  EntryReplies(MountState& state, AttributeReplies& attributes)
      : state_(state), attributes_(attributes) {}
  EntryReplies(const EntryReplies&) = delete;
  EntryReplies& operator=(const EntryReplies&) = delete;

  // Answers with an entry for `node` at `dentry`, or the error. How long the kernel may keep the
  // name and the attributes depends on their promises.
  void Reply(Call& call, const absl::StatusOr<client::Node>& node, const DentryName& dentry);
  // Likewise for a node that was just created.
  void ReplyNew(Call& call, const absl::StatusOr<client::Node>& node, const DentryName& dentry);
  // Answers a LOOKUP of a name that does not exist, and that the kernel may keep as absent. `names`
  // is the promise of the directory's names. Returns false if the kernel may not keep the name; the
  // call was not answered then.
  bool ReplyAbsent(Call& call, const DentryName& dentry, const client::Promise& names);
  // Answers a LOOKUP of a name that is known not to exist, because all names of the directory are
  // known. Returns false if the call was not answered.
  bool ReplyKnownAbsent(Call& call, const InodeView& directory, const DentryName& dentry);
  // The kernel moves names of these places, after a rename by this mount. With a server that gives
  // promises they are dropped, unless `names`, the promise of the names in the changed directories,
  // covers them. Call this before the call is answered.
  void Moved(const DentryName& from, const DentryName& to, bool exchanged,
             const client::Promise& names);
  // The kernel removes the name, which led to `node`, after this mount has.
  void Removed(const std::optional<InodeView>& node, const DentryName& dentry);
  // Makes the kernel look up `dentry` again, if it may keep it. A change of that name by this mount
  // has failed, or its caller was killed.
  void DropName(const DentryName& dentry);

  // Counts a lookup of `node` at `dentry`, and returns the entry for the kernel. `asked` is at or
  // before the time of the request whose reply described `node`. If the kernel does not accept the
  // answer, the caller must call Undo.
  fuse_entry_out Entry(const Call& call, const client::Node& node, const DentryName& dentry,
                       absl::Time asked);
  void Undo(uint64_t nodeid);

 private:
  void KeepName(fuse_entry_out& entry, const client::Node& node, const DentryName& dentry,
                absl::Duration attributes_for);
  bool MayKeep(const DentryName& dentry, uint64_t nodeid, const client::Promise& names,
               absl::Duration validity);

  MountState& state_;
  AttributeReplies& attributes_;
};

}  // namespace dafs::fuse
