// Mount points by name: what mount.dafs registers itself under and dafsctl looks for, and what the
// kernel knows of a mount. Pure functions, except that they read /proc and the file system; any
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dafs::client {

// `path` absolute and without symbolic links. The last component need not be accessible: a mount
// whose server or daemon is gone answers nothing. A path that cannot be resolved becomes absolute
// only. May block on a mount that hangs above the last component.
std::string ResolveMountPoint(const std::string& path);

struct MountEntry {
  std::string point;
  std::string device;         // "major:minor"
  std::string type;           // "fuse.dafs"
  std::string source;         // "server:/export"
  std::string super_options;  // "rw,user_id=0,..."
  bool operator==(const MountEntry&) const = default;
};

// The mount that an absolute `path` without symbolic links lies on, by `mountinfo`, the text of
// /proc/self/mountinfo: the longest mount point that begins the path, of several mounts there the
// uppermost. nullopt: `mountinfo` names none.
std::optional<MountEntry> FindMount(std::string_view mountinfo, std::string_view path);

// The text of /proc/self/mountinfo.
std::string ReadMountInfo();

}  // namespace dafs::client
