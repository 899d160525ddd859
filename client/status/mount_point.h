// Finds mounts by path: the name under which mount.dafs registers and dafsctl looks it up, and the
// kernel's entry of a mount. Pure functions, except that they read /proc and the file system; any
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dafs::client {

// Returns `path` as an absolute path without symbolic links. The last component need not be
// accessible, since a mount without its server or daemon does not answer. If the path cannot be
// resolved, it is only made absolute. May block if a mount above the last component hangs.
std::string ResolveMountPoint(const std::string& path);

struct MountEntry {
  std::string point;
  std::string device;         // "major:minor"
  std::string type;           // "fuse.dafs"
  std::string source;         // "server:/export"
  std::string super_options;  // "rw,user_id=0,..."
  bool operator==(const MountEntry&) const = default;
};

// The mount that contains `path`, which is absolute and has no symbolic links. `mountinfo` is the
// text of /proc/self/mountinfo. Finds the longest mount point that is a prefix of the path; of
// several mounts there, the uppermost. nullopt: there is none.
std::optional<MountEntry> FindMount(std::string_view mountinfo, std::string_view path);

// The text of /proc/self/mountinfo.
std::string ReadMountInfo();

}  // namespace dafs::client
