// The attributes of the root, and STATFS. umount(8) requests both, and must end within a second
// even if the server is unreachable. They are answered with the server's last reply:
// - after kAskAfter if there is no session;
// - after kSilentAfter more if the server does not answer a NULL either, which needs no disk;
// - after kWaitForAnswer more if the server answers other requests, but not this one;
// - after kGlance if the server was already silent when the request arrived.
// Without a last reply they wait: for wrong attributes of the root the kernel gives up the mount.
// Spec: 6.5.13, 6.5.15. Belongs to one worker's thread.
#pragma once

#include <memory>

#include "absl/time/time.h"
#include "client/files/files.h"
#include "fuse/cache/inode_table.h"
#include "fuse/operations/shared/context.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/operations/shared/request_nodes.h"
#include "fuse/request/call.h"
#include "runtime/loop/task.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

class RootStatus {
 public:
  static constexpr absl::Duration kAskAfter = absl::Milliseconds(300);
  static constexpr absl::Duration kSilentAfter = absl::Milliseconds(400);
  static constexpr absl::Duration kWaitForAnswer = absl::Seconds(3);
  static constexpr absl::Duration kGlance = absl::Milliseconds(50);

  explicit RootStatus(Context& context)
      : context_(context), state_(context.state), files_(context.files.mount()) {}

  // Each answers `call`.
  Task<void> Getattr(Call& call, InodeView root);
  Task<void> Statfs(Call& call);

 private:
  struct Race;
  CallerIdentity Asker(const Call& call) const;
  Task<void> ProbeServer();
  void NoteSilence();
  void GiveUpLater(std::shared_ptr<Race> race);
  Task<void> RefreshStatfs(std::shared_ptr<Race> race, wire::FileHandle handle,
                           CallerIdentity user);
  Task<void> RefreshRoot(std::shared_ptr<Race> race, wire::FileHandle handle, CallerIdentity user);

  Context& context_;
  MountState& state_;
  client::Files& files_;
  bool probing_ = false;  // a NULL of ProbeServer is outstanding
  bool silent_ = false;   // that NULL was not answered in time; counted in silent_workers
};

}  // namespace dafs::fuse
