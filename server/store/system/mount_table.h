// The mounts that the process sees, from /proc/self/mountinfo: reading it asks no file system, so
// it never waits for one that hangs. Spec: proc_pid_mountinfo(5). Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dafs::server {

struct MountLine {
  uint64_t mount_id = 0;
  std::string device;  // MAJOR:MINOR, of the whole file system
  std::string root;    // the directory of the file system that is at `point`
  std::string point;
  std::string type;  // "ext4", "fuse.sshfs"
};

// Outermost first: in the order in which they were mounted.
std::vector<MountLine> ReadMountTable();

}  // namespace dafs::server
