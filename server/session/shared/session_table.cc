#include "server/session/shared/session_table.h"

#include <sys/random.h>

#include "absl/strings/str_cat.h"
#include "runtime/check.h"

namespace dafs::server {

SessionTable::Place SessionTable::PlaceOf(const PeerAddress& address, bool admitted) {
  const auto end = address.is_v4() ? address.bytes.end() : address.bytes.begin() + 8;
  return {.host = std::string(address.bytes.begin(), end), .admitted = admitted};
}

absl::Status SessionTable::Admit(const Place& place) {
  absl::MutexLock lock(&mutex_);
  Room& room = RoomOf(place);
  const char* kind = place.admitted ? " sessions" : " sessions of clients that no export admits";
  if (room.taken >= room.most) {
    return absl::ResourceExhaustedError(
        absl::StrCat(room.taken, kind, ", the limit", place.admitted ? " (--max-sessions)" : ""));
  }
  auto [of_host, first] = room.by_host.try_emplace(place.host, 0);
  if (of_host->second >= room.most_of_host) {
    return absl::ResourceExhaustedError(
        absl::StrCat(of_host->second, kind, " from one address (IPv6: one /64), the limit",
                     place.admitted ? " (--max-sessions-per-address)" : ""));
  }
  ++of_host->second;
  ++room.taken;
  return absl::OkStatus();
}

void SessionTable::Leave(const Place& place) {
  absl::MutexLock lock(&mutex_);
  Room& room = RoomOf(place);
  --room.taken;
  auto it = room.by_host.find(place.host);
  if (it != room.by_host.end() && --it->second == 0) room.by_host.erase(it);
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
  return admitted_.taken + strangers_.taken;
}

}  // namespace dafs::server
