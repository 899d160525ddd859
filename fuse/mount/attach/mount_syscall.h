// Attaches /dev/fuse to a directory and detaches it: as root with mount(2), as another user with
// libfuse's set-user-id helper fusermount3.
//
// The type in /proc/mounts is `fuse.dafs`: the kernel has no file system type `dafs`, and allows a
// FUSE mount only a subtype. `mount -t dafs` still starts this program, and `findmnt -t fuse.dafs`
// and `df -t fuse.dafs` find its mounts.
// Any thread. Every call may block on the kernel, but never on the file system that is mounted.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "fuse/mount/process/exit_code.h"
#include "fuse/options/options.h"
#include "runtime/files/unique_fd.h"

namespace dafs::fuse {

struct MountResult {
  Outcome outcome;
  UniqueFd fd;  // /dev/fuse, O_NONBLOCK, on success
  std::string mount_point;
};

// Fails unless the mount point is a directory that can be accessed. Called before anything else.
Outcome CheckMountPoint(const Options& options);

// Mounts `options.source.text` on `options.mount_point`, which main has resolved. Afterwards the
// kernel's INIT can be read from the fd.
MountResult MountFuse(const Options& options);

// Gives the existing mount at `options.mount_point` the flags of `options`.
Outcome ChangeFlags(const Options& options);

// Detaches the mount; files still open on it keep it alive until they are closed.
void DetachMount(const std::string& mount_point);

// Lets the kernel read ahead up to `bytes` on this mount. The kernel's default of 128 KiB keeps
// only one request outstanding, but a network needs several. Only root can set it; failures are
// ignored. Sends no request to the mount.
void SetReadAhead(const std::string& mount_point, uint32_t bytes);

}  // namespace dafs::fuse
