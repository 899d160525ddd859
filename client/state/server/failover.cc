#include "client/state/server/failover.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/log/log.h"

namespace dafs::client {

void Failover::OnDue(std::function<void()> fetch, std::function<void(bool)> fetched) {
  {
    absl::MutexLock lock(&mutex_);
    fetch_ = std::move(fetch);
    fetched_ = std::move(fetched);
    is_fetching_ = false;
  }
  Begin();
}

Failover::FileSystem* Failover::Find(const wire::FsHandle& id) {
  for (FileSystem& one : file_systems_) {
    if (one.id == id) return &one;
  }
  return nullptr;
}

Failover::FileSystem* Failover::Add(const wire::FileHandle& handle) {
  if (FileSystem* known = Find(handle.fshandle)) {
    if (std::exchange(known->is_stale, false)) {
      known->handle = handle;
      known->is_due = true;
    }
    return known;
  }
  if (file_systems_.size() == kMostFileSystems) return nullptr;
  return &file_systems_.emplace_back(handle);
}

// Calls `fetch_` under the mutex, so that OnDue(nullptr) ends all calls.
void Failover::Begin() {
  absl::MutexLock lock(&mutex_);
  const bool is_due = std::any_of(file_systems_.begin(), file_systems_.end(),
                                  [](const FileSystem& one) { return one.is_due; });
  if (is_fetching_ || fetch_ == nullptr || !(is_due || changed_.load())) return;
  is_fetching_ = true;
  fetch_();
}

void Failover::Saw(const wire::FileHandle& handle) {
  const wire::FsHandle* const last = last_.load(std::memory_order_acquire);
  if (last != nullptr && *last == handle.fshandle) return;
  {
    absl::MutexLock lock(&mutex_);
    const FileSystem* const seen = Add(handle);
    if (seen == nullptr) return;
    last_.store(&seen->id, std::memory_order_release);
    if (!seen->is_due) return;
  }
  Begin();
}

void Failover::Changed() {
  if (changed_.load(std::memory_order_relaxed) || changed_.exchange(true)) return;
  Begin();
}

void Failover::Reached(uint32_t instance) {
  const uint32_t before = instance_.exchange(instance);
  // Files::Mount fetches those of the first instance, unless the mount continues an earlier one.
  if (before != instance && (before != 0 || root_.Latest().has_value())) Changed();
}

std::vector<wire::FileHandle> Failover::TakeDue() {
  const std::optional<wire::FileHandle> root = root_.Latest();
  absl::MutexLock lock(&mutex_);
  if (root.has_value()) Add(*root);
  std::vector<wire::FileHandle> due;
  const bool all = changed_.load();
  for (FileSystem& one : file_systems_) {
    if ((std::exchange(one.is_due, false) || all) && !one.is_stale) due.push_back(one.handle);
  }
  return due;
}

void Failover::Fetched(const wire::FileHandle& handle,
                       const std::vector<wire::FsLocations>& locations) {
  absl::MutexLock lock(&mutex_);
  FileSystem* const file_system = Add(handle);
  if (file_system == nullptr) return;
  std::vector<std::string> servers;
  for (const wire::FsLocations& each : locations) {
    for (const wire::FsLocation& location : each.locations) {
      if (servers.size() == kMostServers) break;
      // Handles stay valid only where the export has the same name.
      if (location.root_path == each.fs_root) {
        servers.push_back(location.server);
      } else {
        LogWarning(absl::StrCat(
            name_, ": the alternate location ", absl::CHexEscape(location.server),
            " has the path /", absl::CHexEscape(absl::StrJoin(location.root_path, "/")), ", not /",
            absl::CHexEscape(absl::StrJoin(each.fs_root, "/")), "; it is not used"));
      }
    }
  }
  has_news_ = has_news_ || file_system->servers != servers;
  file_system->is_due = false;
  file_system->servers = std::move(servers);
}

void Failover::NotFetched(const wire::FileHandle& handle) {
  absl::MutexLock lock(&mutex_);
  FileSystem* const file_system = Find(handle.fshandle);
  if (file_system == nullptr || file_system->handle != handle) return;
  file_system->is_stale = true;
  last_.store(nullptr, std::memory_order_release);  // Saw shall notice the next handle
}

// Answers that were sent before the fetch may still carry the flag: one more fetch does no harm.
void Failover::EndFetch() {
  {
    absl::MutexLock lock(&mutex_);
    is_fetching_ = false;
    changed_.store(false);
    if (fetched_ != nullptr) fetched_(std::exchange(has_news_, false));
  }
  Begin();
}

std::vector<std::string> Failover::Servers() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> servers;
  for (const FileSystem& one : file_systems_) {
    for (const std::string& server : one.servers) {
      if (servers.size() == kMostServers) return servers;
      if (std::find(servers.begin(), servers.end(), server) == servers.end()) {
        servers.push_back(server);
      }
    }
  }
  return servers;
}

}  // namespace dafs::client
