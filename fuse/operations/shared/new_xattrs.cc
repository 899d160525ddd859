#include "fuse/operations/shared/new_xattrs.h"

namespace dafs::fuse {

// A new object has no capabilities and no label. It has no ACL unless its directory has a default
// ACL to inherit.
void NoteNew(MountState& state, uint64_t nodeid, uint64_t directory, absl::Time made) {
  state.absent_xattrs.Note(nodeid, AbsentXattr::kCapability, made);
  state.absent_xattrs.Note(nodeid, AbsentXattr::kSelinux, made);
  if (!state.attributes.KeepsFiles()) return;  // the directory's ACL is unknown: see ModeOfNew
  if (!state.absent_xattrs.Known(directory, AbsentXattr::kDefaultAcl, made)) return;
  state.absent_xattrs.Note(nodeid, AbsentXattr::kAccessAcl, made);
  state.absent_xattrs.Note(nodeid, AbsentXattr::kDefaultAcl, made);
}

}  // namespace dafs::fuse
