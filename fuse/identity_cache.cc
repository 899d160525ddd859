#include "fuse/identity_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "fuse/unique_fd.h"
#include "wire/limits.h"

namespace dafs::fuse {
namespace {

constexpr size_t kEntriesMax = 4096;  // processes seen within a second; bounds the memory

std::string ReadStatus(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!fd.valid()) return text;
  // 64 KiB hold a thousand groups and all the rest.
  text.resize(65536);
  size_t size = 0;
  while (size < text.size()) {
    ssize_t got = read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

std::vector<uint32_t> GroupsOf(std::string_view status) {
  constexpr std::string_view kLabel = "\nGroups:";
  std::vector<uint32_t> groups;
  size_t start = status.find(kLabel);
  if (start == status.npos) return groups;
  std::string_view line = status.substr(start + kLabel.size());
  line = line.substr(0, line.find('\n'));
  const char* end = line.data() + line.size();
  for (const char* at = line.data(); at < end && groups.size() < wire::kGroupsMax;) {
    uint32_t group = 0;
    auto [next, error] = std::from_chars(at, end, group);
    if (error == std::errc()) groups.push_back(group);
    at = error == std::errc() ? next : at + 1;
  }
  // One order for one set, so that equal sets share a credential.
  std::sort(groups.begin(), groups.end());
  return groups;
}

}  // namespace

std::shared_ptr<const client::Identity> IdentityCache::Get(uint32_t uid, uint32_t gid, uint32_t pid,
                                                           Groups groups, absl::Time now) {
  bool has_groups = uid != 0 && pid != 0;
  const uint32_t key = has_groups ? pid : 0;  // pid 0: callers without groups, by uid and gid
  {
    absl::MutexLock lock(&mutex_);
    auto it = by_pid_.find(key);
    if (it != by_pid_.end() && it->second.identity->uid == uid && it->second.identity->gid == gid &&
        (!has_groups ||
         (groups == Groups::kRecent && now - it->second.read_at < kGroupsAreBelievedFor))) {
      return it->second.identity;
    }
  }
  auto identity = std::make_shared<client::Identity>();
  identity->uid = uid;
  identity->gid = gid;
  if (has_groups)
    identity->groups = GroupsOf(ReadStatus(proc_ + "/" + std::to_string(pid) + "/status"));
  absl::MutexLock lock(&mutex_);
  if (auto it = by_pid_.find(key); it != by_pid_.end() && *it->second.identity == *identity) {
    it->second.read_at = now;
    return it->second.identity;
  }
  if (by_pid_.size() >= kEntriesMax) by_pid_.clear();
  by_pid_[key] = {identity, now};
  return identity;
}

}  // namespace dafs::fuse
