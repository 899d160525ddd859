// The part of Delegations about clients: which may have any, and what one that starts again claims.
#include "server/store/holdings/delegations.h"

namespace dafs::server {

void Delegations::Admit(const wire::ClientId& client_id, std::string_view name) {
  const uint64_t id = wire::OpaqueToUint64(client_id);
  std::atomic<uint64_t>& place = AdmittedPlace(client_id);
  if (place.load(std::memory_order_relaxed) == id) return;
  absl::MutexLock lock(&mutex_);
  Client& client = clients_[client_id];
  client.is_admitted = true;
  client.name = name;
  place.store(id, std::memory_order_relaxed);
}

bool Delegations::IsAdmitted(const wire::ClientId& client_id) const {
  if (options_.most == Type::kNone) return false;
  if (AdmittedPlace(client_id).load(std::memory_order_relaxed) == wire::OpaqueToUint64(client_id)) {
    return true;
  }
  absl::MutexLock lock(&mutex_);
  const auto client = clients_.find(client_id);
  return client != clients_.end() && client->second.is_admitted;
}

void Delegations::Forget(const wire::ClientId& client_id) {
  absl::MutexLock lock(&mutex_);
  const auto client = clients_.find(client_id);
  if (client == clients_.end()) return;
  std::atomic<uint64_t>& place = AdmittedPlace(client_id);
  if (place.load(std::memory_order_relaxed) == wire::OpaqueToUint64(client_id)) {
    place.store(0, std::memory_order_relaxed);
  }
  client->second.is_admitted = false;
  if (client->second.held == 0) clients_.erase(client);
}

void Delegations::Supersede(const wire::ClientId& from, const wire::ClientId& to,
                            std::string_view name, absl::Time until) {
  absl::MutexLock lock(&mutex_);
  const auto before = clients_.find(from);
  if (before == clients_.end() || before->second.held == 0) return;
  size_t kept = 0;
  for (auto& [id, entry] : entries_) {
    if (entry.delegation.client_id != from || entry.delegation.type != Type::kWrite) continue;
    before->second.idle.erase(id);
    entry.delegation.client_id = to;
    entry.awaits_claim = true;
    entry.claim_until = until;
    ++kept;
  }
  if (kept == 0) return;
  before->second.held -= kept;
  Client& client = clients_[to];
  client.name = name;
  client.held += kept;
}

const Delegations::Entry* Delegations::FindClaim(const ObjectKey& key,
                                                 const wire::ClientId& client_id) const {
  const auto ids = by_key_.find(key);
  if (ids == by_key_.end()) return nullptr;
  for (const Id id : ids->second) {
    const Entry& entry = entries_.find(id)->second;
    if (entry.awaits_claim && entry.delegation.client_id == client_id) return &entry;
  }
  return nullptr;
}

bool Delegations::MayClaim(const ObjectKey& key, const wire::ClientId& client_id,
                           absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  const Entry* const entry = FindClaim(key, client_id);
  return entry != nullptr && now < entry->claim_until;
}

void Delegations::Claimed(const ObjectKey& key, const wire::ClientId& client_id) {
  Dones over;
  {
    absl::MutexLock lock(&mutex_);
    if (const Entry* const entry = FindClaim(key, client_id)) {
      Erase(wire::OpaqueToUint64(entry->delegation.state_id), over);
    }
  }
  for (Done& done : over) done();
}

void Delegations::Purge(const wire::ClientId& client_id) {
  Dones over;
  {
    absl::MutexLock lock(&mutex_);
    std::vector<Id> ids;
    for (const auto& [id, entry] : entries_) {
      if (entry.awaits_claim && entry.delegation.client_id == client_id) ids.push_back(id);
    }
    for (const Id id : ids) Erase(id, over);
  }
  for (Done& done : over) done();
}

void Delegations::EndClaims(absl::Time now) {
  if (count_.load(std::memory_order_relaxed) == 0) return;
  Dones over;
  {
    absl::MutexLock lock(&mutex_);
    std::vector<Id> ids;
    for (const auto& [id, entry] : entries_) {
      if (entry.awaits_claim && entry.claim_until <= now) ids.push_back(id);
    }
    for (const Id id : ids) Erase(id, over);
  }
  for (Done& done : over) done();
}

}  // namespace dafs::server
