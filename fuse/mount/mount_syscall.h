// Attaching /dev/fuse to a directory and detaching it: mount(2) by ourselves as root; for others
// libfuse's set-user-id helper fusermount3.
//
// The type in /proc/mounts is `fuse.dafs`: the kernel knows no file system type `dafs`, and gives a
// FUSE mount only a subtype. (mount(8) finds us by the type `dafs` all the same, and `findmnt -t
// fuse.dafs`, `df -t fuse.dafs` find our mounts.)
// Any thread; every call may block on the kernel, none on the file system that is mounted.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "fuse/mount/exit_code.h"
#include "fuse/options/options.h"
#include "runtime/unique_fd.h"

namespace dafs::fuse {

struct MountResult {
  Outcome outcome;
  UniqueFd fd;  // /dev/fuse, O_NONBLOCK, on success
  std::string mount_point;
};

// Before anything else is tried: is there a directory to mount on, and may we?
Outcome CheckMountPoint(const Options& options);

// Mounts `options.source.text` on `options.mount_point`, which main has resolved. The kernel's INIT
// waits in the fd then.
MountResult MountFuse(const Options& options);

// Gives the mount that is there the flags of `options`.
Outcome ChangeFlags(const Options& options);

// Detaches the mount; files still open on it keep it alive until they are closed.
void DetachMount(const std::string& mount_point);

// Lets the kernel read ahead up to `bytes` on this mount; its default of 128 KiB keeps one request
// in flight where a network wants several. Best effort, only root can. Asks the mount nothing.
void SetReadAhead(const std::string& mount_point, uint32_t bytes);

}  // namespace dafs::fuse
