#include "server/session_table.h"

#include <sys/random.h>

#include "absl/strings/str_cat.h"
#include "wire/check.h"

namespace dafs::server {

absl::Status SessionTable::Admit(const std::string& host) {
  absl::MutexLock lock(&mutex_);
  if (connections_ >= max_sessions_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(connections_, " sessions, the limit (--max-sessions)"));
  }
  uint32_t& of_host = by_host_[host];
  if (of_host >= max_per_address_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        of_host, " sessions from one address, the limit (--max-sessions-per-address)"));
  }
  ++of_host;
  ++connections_;
  return absl::OkStatus();
}

void SessionTable::Leave(const std::string& host) {
  absl::MutexLock lock(&mutex_);
  --connections_;
  auto it = by_host_.find(host);
  if (it != by_host_.end() && --it->second == 0) by_host_.erase(it);
}

wire::SessionId SessionTable::Open(wire::ByteOrder order) {
  absl::MutexLock lock(&mutex_);
  wire::SessionId session_id;
  do {
    ssize_t got = getrandom(session_id.bytes.data(), session_id.bytes.size(), 0);
    DAFS_CHECK(got == static_cast<ssize_t>(session_id.bytes.size()), "getrandom(2) failed");
  } while (session_id.is_zero() || sessions_.contains(session_id));
  sessions_.emplace(session_id, order);
  return session_id;
}

void SessionTable::Close(const wire::SessionId& session_id) {
  absl::MutexLock lock(&mutex_);
  sessions_.erase(session_id);
}

absl::StatusOr<wire::ByteOrder> SessionTable::Find(const wire::SessionId& session_id) const {
  absl::MutexLock lock(&mutex_);
  auto it = sessions_.find(session_id);
  if (it == sessions_.end()) return absl::NotFoundError("no such session");
  return it->second;
}

size_t SessionTable::connections() const {
  absl::MutexLock lock(&mutex_);
  return connections_;
}

}  // namespace dafs::server
