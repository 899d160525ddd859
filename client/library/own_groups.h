// The supplementary groups of the calling process. Any thread.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dafs::client {

// Returns an empty list on failure.
inline std::vector<uint32_t> OwnGroups() {
  const int count = getgroups(0, nullptr);
  std::vector<gid_t> groups(static_cast<size_t>(std::max(count, 0)));
  if (getgroups(count, groups.data()) != count) return {};
  return {groups.begin(), groups.end()};
}

}  // namespace dafs::client
