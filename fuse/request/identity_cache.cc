#include "fuse/request/identity_cache.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/files/unique_fd.h"
#include "runtime/log/log.h"
#include "wire/protocol/limits.h"

namespace dafs::fuse {
namespace {

constexpr size_t kEntriesMax = 4096;  // processes seen within a second; bounds the memory

std::string ReadStatus(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!fd.valid()) return text;
  // 64 KiB is enough for a thousand groups and everything else in the file.
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
  // Sorted, so that equal sets share a credential.
  std::sort(groups.begin(), groups.end());
  return groups;
}

}  // namespace

std::vector<uint32_t> GroupsInDatabase(uint32_t uid) {
  passwd entry;
  passwd* found = nullptr;
  std::vector<char> text(1024);
  while (getpwuid_r(uid, &entry, text.data(), text.size(), &found) == ERANGE) {
    if (text.size() > (size_t{1} << 20)) return {};
    text.resize(text.size() * 2);
  }
  if (found == nullptr) return {};
  std::vector<gid_t> groups(wire::kGroupsMax);
  int count = static_cast<int>(groups.size());
  getgrouplist(entry.pw_name, entry.pw_gid, groups.data(), &count);  // returns at most `count`
  groups.resize(std::min(groups.size(), static_cast<size_t>(std::max(count, 0))));
  std::sort(groups.begin(), groups.end());
  return {groups.begin(), groups.end()};
}

IdentityCache::IdentityCache(std::string name, CallerProc proc, UserDatabase database)
    : name_(std::move(name)), proc_(std::move(proc)), database_(std::move(database)) {}

std::vector<uint32_t> IdentityCache::GroupsFromDatabase(uint32_t uid) {
  if (!said_database_.exchange(true)) {
    LogWarning(
        name_ +
        ": a caller's process is not visible in this PID namespace: supplementary groups come from "
        "the user database; run mount.dafs in the PID namespace of its callers to use theirs");
  }
  return database_(uid);
}

std::shared_ptr<const client::Identity> IdentityCache::Get(uint32_t uid, uint32_t gid, uint32_t pid,
                                                           Groups groups, absl::Time now) {
  const bool has_groups = uid != 0;
  const bool from_database = has_groups && !proc_.Shows(pid);
  auto& identities = from_database ? by_user_ : by_pid_;
  const uint32_t key = from_database ? uid : has_groups ? pid : 0;
  const absl::Duration believed = from_database               ? kDatabaseIsBelievedFor
                                  : groups == Groups::kRecent ? kGroupsAreBelievedFor
                                                              : absl::ZeroDuration();
  {
    absl::MutexLock lock(&mutex_);
    auto it = identities.find(key);
    if (it != identities.end() && it->second.identity->uid == uid &&
        it->second.identity->gid == gid && (!has_groups || now - it->second.read_at < believed)) {
      return it->second.identity;
    }
  }
  auto identity = std::make_shared<client::Identity>();
  identity->uid = uid;
  identity->gid = gid;
  if (from_database) {
    identity->groups = GroupsFromDatabase(uid);
  } else if (has_groups) {
    identity->groups = GroupsOf(ReadStatus(proc_.PathOf(pid, "status")));
  }
  absl::MutexLock lock(&mutex_);
  if (auto it = identities.find(key); it != identities.end() && *it->second.identity == *identity) {
    it->second.read_at = now;
    return it->second.identity;
  }
  if (identities.size() >= kEntriesMax) identities.clear();
  identities[key] = {identity, now};
  return identity;
}

}  // namespace dafs::fuse
