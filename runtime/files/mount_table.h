// The mounts that the process sees, from /proc/self/mountinfo. Reading it accesses no mounted file
// system, so it never waits for one that hangs. Spec: proc_pid_mountinfo(5). Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dafs {

struct MountEntry {
  uint64_t mount_id = 0;
  std::string device;  // "MAJOR:MINOR", of the whole file system
  std::string root;    // the directory within the file system that is mounted at `point`
  std::string point;
  std::string type;           // "ext4", "fuse.dafs"
  std::string source;         // "server:/export"
  std::string super_options;  // "rw,user_id=0,..."
  bool operator==(const MountEntry&) const = default;
};

// Returns the mounts in the order in which they were mounted, outermost first.
std::vector<MountEntry> ReadMountTable();

// The same, of the text of a mountinfo file. Lines of another form are left out.
std::vector<MountEntry> ParseMountInfo(std::string_view text);

// The mount of `mounts` that contains `path`, which is absolute and has no symbolic links: the one
// with the longest mount point that is a prefix of the path; of several there, the uppermost.
// nullptr: there is none.
const MountEntry* FindMount(const std::vector<MountEntry>& mounts, std::string_view path);

}  // namespace dafs
