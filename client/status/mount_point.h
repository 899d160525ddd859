// The name under which mount.dafs registers a mount and dafsctl looks it up. Any thread.
#pragma once

#include <string>

namespace dafs::client {

// Returns `path` as an absolute path without symbolic links. The last component need not be
// accessible, since a mount without its server or daemon does not answer. If the path cannot be
// resolved, it is only made absolute. May block if a mount above the last component hangs.
std::string ResolveMountPoint(const std::string& path);

}  // namespace dafs::client
