#include "fuse/files/user_clients.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace dafs::fuse {

// Its own data and opens also count: a CLOSE, or the COMMIT after it, may still be outstanding.
bool UserClients::IsUsed(const UserClient& user) {
  return user.pins.load(std::memory_order_acquire) > 0 || user.client->opens().size() > 0 ||
         !user.client->uncommitted().Files().empty();
}

absl::StatusOr<UserClients::Pin> UserClients::Enter(uint32_t uid, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  auto it = users_.find(uid);
  if (it == users_.end()) {
    if (users_.size() >= most_ && !MakeRoom()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("user ", uid, ": all ", most_, " sessions of users are used"));
    }
    absl::StatusOr<std::unique_ptr<client::Client>> made = make_(uid);
    if (!made.ok()) return made.status();
    it = users_.emplace(uid, std::make_shared<UserClient>(uid, *std::move(made))).first;
  }
  UserClient& user = *it->second;
  user.last_used = now;
  user.pins.fetch_add(1, std::memory_order_relaxed);
  // A pin may outlive the table: it also owns the client.
  return Pin(it->second.get(), [user = it->second](const void*) {
    user->pins.fetch_sub(1, std::memory_order_release);
  });
}

std::shared_ptr<UserClient> UserClients::Find(uint32_t uid) const {
  absl::MutexLock lock(&mutex_);
  const auto it = users_.find(uid);
  return it == users_.end() ? nullptr : it->second;
}

std::vector<std::shared_ptr<UserClient>> UserClients::All() const {
  std::vector<std::shared_ptr<UserClient>> all;
  absl::MutexLock lock(&mutex_);
  for (const auto& [uid, user] : users_) all.push_back(user);
  return all;
}

void UserClients::End(Users::iterator user) {
  user->second->has_ended.store(true, std::memory_order_relaxed);
  users_.erase(user);
  version_.fetch_add(1, std::memory_order_release);
}

bool UserClients::MakeRoom() {
  auto oldest = users_.end();
  for (auto it = users_.begin(); it != users_.end(); ++it) {
    if (IsUsed(*it->second)) continue;
    if (oldest == users_.end() || it->second->last_used < oldest->second->last_used) oldest = it;
  }
  if (oldest == users_.end()) return false;
  End(oldest);
  return true;
}

void UserClients::EndUnused(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  for (auto it = users_.begin(); it != users_.end();) {
    const auto user = it++;
    if (IsUsed(*user->second)) {
      user->second->last_used = now;
    } else if (now - user->second->last_used >= kUnusedFor) {
      End(user);
    }
  }
}

}  // namespace dafs::fuse
