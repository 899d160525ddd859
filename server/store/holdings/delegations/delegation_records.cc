#include "server/store/holdings/delegations/delegation_records.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/loop/loop.h"

namespace dafs::server {

namespace {

uint64_t IdOf(const wire::StateId& state_id) { return wire::OpaqueToUint64(state_id); }

}  // namespace

DelegationRecords::Record* DelegationRecords::Find(const wire::StateId& state_id) {
  return FindById(IdOf(state_id));
}

DelegationRecords::Record* DelegationRecords::FindById(uint64_t id) {
  const auto record = records_.find(id);
  return record == records_.end() ? nullptr : &record->second;
}

size_t DelegationRecords::CountOf(const ObjectKey& key) const {
  const auto ids = by_key_.find(key);
  return ids == by_key_.end() ? 0 : ids->second.size();
}

DelegationRecords::Record* DelegationRecords::FindOf(const ObjectKey& key,
                                                     absl::FunctionRef<bool(Record&)> is_it) {
  const auto ids = by_key_.find(key);
  if (ids == by_key_.end()) return nullptr;
  for (const uint64_t id : ids->second) {
    Record& record = records_.find(id)->second;
    if (is_it(record)) return &record;
  }
  return nullptr;
}

std::vector<DelegationRecords::Record*> DelegationRecords::Where(
    absl::FunctionRef<bool(const Record&)> is_wanted) {
  std::vector<Record*> found;
  for (auto& [id, record] : records_) {
    if (is_wanted(record)) found.push_back(&record);
  }
  return found;
}

void DelegationRecords::Add(const Delegation& delegation) {
  const uint64_t id = IdOf(delegation.state_id);
  records_[id].delegation = delegation;
  by_key_[delegation.key].push_back(id);
  Client& client = clients_[delegation.client_id];
  ++client.held;
  client.idle.insert(id);
  if (delegation.type == Delegation::Type::kWrite) ++writes_;
  ++CountAt(delegation.key);
  count_.store(records_.size(), std::memory_order_seq_cst);
}

void DelegationRecords::SetType(Record& record, Delegation::Type type) {
  const Delegation::Type before = std::exchange(record.delegation.type, type);
  if (before == type) return;
  if (type == Delegation::Type::kWrite) ++writes_;
  if (before == Delegation::Type::kWrite) --writes_;
}

void DelegationRecords::BeginRecall(Record& record, absl::Time now) {
  record.is_recalled = true;
  record.recalled_at = now;
  Client& client = clients_.find(record.delegation.client_id)->second;
  client.idle.erase(IdOf(record.delegation.state_id));
  ++recalls_.begun;
  ++client.recalls.begun;
}

void DelegationRecords::Erase(Record& record, Dones& over) {
  std::move(record.ended.begin(), record.ended.end(), std::back_inserter(over));
  std::move(record.answered.begin(), record.answered.end(), std::back_inserter(over));
  const Delegation delegation = std::move(record.delegation);
  const uint64_t id = IdOf(delegation.state_id);
  const auto ids = by_key_.find(delegation.key);
  ids->second.erase(std::find(ids->second.begin(), ids->second.end(), id));
  if (ids->second.empty()) by_key_.erase(ids);
  Client& client = clients_.find(delegation.client_id)->second;
  client.idle.erase(id);
  if (record.is_recalled && !record.awaits_claim) {
    const absl::Duration time = Loop::Now() - record.recalled_at;
    recalls_.End(time, record.is_revoked);
    client.recalls.End(time, record.is_revoked);
  }
  --client.held;
  EraseUnused(delegation.client_id);
  if (delegation.type == Delegation::Type::kWrite) --writes_;
  --CountAt(delegation.key);
  records_.erase(id);
  count_.store(records_.size(), std::memory_order_seq_cst);
}

DelegationRecords::Client* DelegationRecords::FindClient(const wire::ClientId& client_id) {
  const auto client = clients_.find(client_id);
  return client == clients_.end() ? nullptr : &client->second;
}

DelegationRecords::Client& DelegationRecords::FindOrAddClient(const wire::ClientId& client_id) {
  return clients_[client_id];
}

void DelegationRecords::EraseUnused(const wire::ClientId& client_id) {
  const auto client = clients_.find(client_id);
  if (client == clients_.end() || client->second.is_admitted || client->second.held > 0) return;
  clients_.erase(client);
}

}  // namespace dafs::server
