// The extended attributes that the kernel and ls(1) read of every file, and that few files have.
// The kernel reads security.capability before it writes, and ACLs before it grants access to a user
// other than the owner. ls(1) reads the ACL and the SELinux label of each file. If a file does not
// have one of these, that is cached (AbsentXattrs::Known), also from a listing with ACLs
// (directory.h).
//
// ls -l reads them in the order of the listing. So those of the next files are prefetched together,
// and more before ls reaches the last of them. Without a cache time, nothing may be prefetched.
// Belongs to one worker's thread. Nothing blocks; the coroutines end with their replies.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "client/files/files.h"
#include "fuse/cache/inode_table.h"
#include "fuse/cache/listing_walk.h"
#include "fuse/cache/questions_out.h"
#include "fuse/operations/mount_state.h"
#include "fuse/operations/request_nodes.h"
#include "runtime/task.h"

namespace dafs::fuse {

class UsualXattrs {
 public:
  // Both must outlive it.
  UsualXattrs(MountState& state, client::Files& files) : state_(state), files_(files) {}
  UsualXattrs(const UsualXattrs&) = delete;
  UsualXattrs& operator=(const UsualXattrs&) = delete;

  // Returns nullopt for the name of another attribute.
  static std::optional<Absent> AbsentOf(std::string_view name);

  // A program requests `attribute` of the node.
  void Requested(uint64_t nodeid, Absent attribute);
  bool KnownAbsent(uint64_t nodeid, Absent attribute) const;
  // The file has `attribute`. Others nearby probably have it too, so prefetching pauses.
  void Found() { walk_.Vain(); }

  bool WantsAhead() const { return walk_.Wanted() > 0 && state_.attributes.KeepsFiles(); }
  // Starts to prefetch for the files that follow. Requires WantsAhead().
  void LookAhead(const CallerIdentity& who, Absent attribute);
  // Returns the end of an outstanding prefetch of the node, to be awaited; nullptr: there is none.
  Pending<bool>* Prefetching(uint64_t nodeid) { return prefetches_.Await(nodeid); }
  // Requests the list of names, which shows which of the attributes are absent.
  Task<void> LookFor(const client::Identity& who, const InodeView& node);

 private:
  Task<void> LookAheadAt(CallerIdentity who, InodeView node);

  MountState& state_;
  client::Files& files_;
  ListingWalk walk_;
  QuestionsOut prefetches_;
};

}  // namespace dafs::fuse
