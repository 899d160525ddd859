// The mounts that the process sees, from /proc/self/mountinfo. Reading it accesses no mounted file
// system, so it never waits for one that hangs. Spec: proc_pid_mountinfo(5). Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dafs::server {

struct MountLine {
  uint64_t mount_id = 0;
  std::string device;  // MAJOR:MINOR, of the whole file system
  std::string root;    // the directory within the file system that is mounted at `point`
  std::string point;
  std::string type;  // "ext4", "fuse.sshfs"
};

// Returns the mounts in the order in which they were mounted, outermost first.
std::vector<MountLine> ReadMountTable();

}  // namespace dafs::server
