#include "fuse/operations/shared/new_xattrs.h"

namespace dafs::fuse {

// A new object has no capabilities and no label. It has no ACL unless its directory has a default
// ACL to inherit.
void NoteNew(MountState& state, uint64_t nodeid, uint64_t directory, absl::Time made) {
  state.caches.absent_xattrs.Note(nodeid, AbsentXattr::kCapability, made);
  state.caches.absent_xattrs.Note(nodeid, AbsentXattr::kSelinux, made);
  if (!state.caches.attributes.KeepsFiles())
    return;  // the directory's ACL is unknown: see ModeOfNew
  if (!state.caches.absent_xattrs.Known(directory, AbsentXattr::kDefaultAcl, made)) return;
  state.caches.absent_xattrs.Note(nodeid, AbsentXattr::kAccessAcl, made);
  state.caches.absent_xattrs.Note(nodeid, AbsentXattr::kDefaultAcl, made);
}

}  // namespace dafs::fuse
