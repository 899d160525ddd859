#include "server/store/holdings/delegations/delegation_claims.h"

#include <cstddef>

#include "absl/synchronization/mutex.h"

namespace dafs::server {

void DelegationClaims::Supersede(const wire::ClientId& from, const wire::ClientId& to,
                                 std::string_view name, absl::Time until) {
  absl::MutexLock lock(&records_.mutex());
  DelegationRecords::Client* const before = records_.FindClient(from);
  if (before == nullptr || before->held == 0) return;
  size_t kept = 0;
  for (Record* const record : records_.Where([&from](const Record& each) {
         return each.delegation.client_id == from &&
                each.delegation.type == Delegation::Type::kWrite;
       })) {
    before->idle.erase(wire::OpaqueToUint64(record->delegation.state_id));
    record->delegation.client_id = to;
    record->awaits_claim = true;
    record->claim_until = until;
    ++kept;
  }
  if (kept == 0) return;
  before->held -= kept;
  DelegationRecords::Client& client = records_.FindOrAddClient(to);
  client.name = name;
  client.held += kept;
}

DelegationClaims::Record* DelegationClaims::Find(const ObjectKey& key,
                                                 const wire::ClientId& client_id) const {
  return records_.FindOf(key, [&client_id](const Record& each) {
    return each.awaits_claim && each.delegation.client_id == client_id;
  });
}

bool DelegationClaims::MayClaim(const ObjectKey& key, const wire::ClientId& client_id,
                                absl::Time now) const {
  absl::MutexLock lock(&records_.mutex());
  const Record* const record = Find(key, client_id);
  return record != nullptr && now < record->claim_until;
}

void DelegationClaims::Claimed(const ObjectKey& key, const wire::ClientId& client_id) {
  DelegationRecords::Dones over;
  {
    absl::MutexLock lock(&records_.mutex());
    if (Record* const record = Find(key, client_id)) records_.Erase(*record, over);
  }
  for (auto& done : over) done();
}

void DelegationClaims::Purge(const wire::ClientId& client_id) {
  EndWhere([&client_id](const Record& record) {
    return record.awaits_claim && record.delegation.client_id == client_id;
  });
}

bool DelegationClaims::End(const wire::StateId& state_id) {
  DelegationRecords::Dones over;
  {
    absl::MutexLock lock(&records_.mutex());
    Record* const record = records_.Find(state_id);
    if (record == nullptr || !record->awaits_claim) return false;
    records_.Erase(*record, over);
  }
  for (auto& done : over) done();
  return true;
}

void DelegationClaims::EndOverdue(absl::Time now) {
  if (records_.count() == 0) return;
  EndWhere(
      [now](const Record& record) { return record.awaits_claim && record.claim_until <= now; });
}

void DelegationClaims::EndWhere(absl::FunctionRef<bool(const Record&)> is_over) {
  DelegationRecords::Dones over;
  {
    absl::MutexLock lock(&records_.mutex());
    for (Record* const record : records_.Where(is_over)) records_.Erase(*record, over);
  }
  for (auto& done : over) done();
}

}  // namespace dafs::server
