#include "server/store/holdings/delegations/delegations.h"

#include <algorithm>

#include "absl/synchronization/mutex.h"
#include "runtime/loop/loop.h"

namespace dafs::server {

namespace {

// Whether a delegation of one client forbids one of `type` to another.
bool Excludes(Delegations::Type held, Delegations::Type type) {
  return held == Delegations::Type::kWrite || type == Delegations::Type::kWrite;
}

}  // namespace

// --- Granting ---

bool Delegations::MayAdd(const ObjectKey& key, const wire::ClientId& client_id, Type type,
                         absl::Time now) const {
  if (!MayGrant(key, type, now)) return false;
  if (!records_.MayHave(key)) return true;
  absl::MutexLock lock(&records_.mutex());
  return records_.FindOf(key, [&](const Record& record) {
    const Delegation& other = record.delegation;
    return other.client_id == client_id || Excludes(other.type, type);
  }) == nullptr;
}

bool Delegations::TryAdd(const Delegation& delegation) {
  Recalls begun;
  {
    absl::MutexLock lock(&records_.mutex());
    const DelegationRecords::Client* const client = records_.FindClient(delegation.client_id);
    if (client == nullptr || !client->is_admitted) return false;
    if (client->held < options_.of_client) {
      records_.Add(delegation);
      return true;
    }
    if (!client->idle.empty()) RecallLocked(*records_.FindById(*client->idle.begin()), begun);
  }
  SendRecalls(begun);
  return false;
}

void Delegations::Add(const Delegation& delegation) {
  absl::MutexLock lock(&records_.mutex());
  records_.Add(delegation);
}

std::optional<Delegation> Delegations::Upgrade(const ObjectKey& key,
                                               const wire::ClientId& client_id, absl::Time now) {
  if (!records_.MayHave(key) || !MayGrant(key, Type::kWrite, now)) return std::nullopt;
  absl::MutexLock lock(&records_.mutex());
  if (records_.CountOf(key) != 1) return std::nullopt;
  Record* const record = records_.FindOf(key, [&](const Record& each) {
    return each.delegation.client_id == client_id && each.delegation.type == Type::kRead &&
           !each.is_recalled;
  });
  if (record == nullptr) return std::nullopt;
  records_.SetType(*record, Type::kWrite);
  return record->delegation;
}

bool Delegations::Downgrade(const wire::StateId& state_id) {
  absl::MutexLock lock(&records_.mutex());
  Record* const record = records_.Find(state_id);
  if (record == nullptr || record->is_recalled) return false;
  records_.SetType(*record, Type::kRead);
  return true;
}

void Delegations::Remove(const wire::StateId& state_id) {
  DelegationRecords::Dones over;
  {
    absl::MutexLock lock(&records_.mutex());
    Record* const record = records_.Find(state_id);
    if (record == nullptr || record->awaits_claim) return;
    records_.Erase(*record, over);
  }
  for (auto& done : over) done();
}

// --- What there is ---

std::optional<Delegation> Delegations::Find(const ObjectKey& key,
                                            const wire::ClientId& client_id) const {
  if (!records_.MayHave(key)) return std::nullopt;
  absl::MutexLock lock(&records_.mutex());
  const Record* const record = records_.FindOf(key, [&client_id](const Record& each) {
    return each.delegation.client_id == client_id && !each.awaits_claim;
  });
  return record == nullptr ? std::nullopt : std::optional(record->delegation);
}

bool Delegations::Has(const ObjectKey& key) const {
  if (!records_.MayHave(key)) return false;
  absl::MutexLock lock(&records_.mutex());
  return records_.CountOf(key) > 0;
}

bool Delegations::HasConflict(const ObjectKey& key, const wire::ClientId& client_id,
                              Type type) const {
  absl::MutexLock lock(&records_.mutex());
  return records_.FindOf(key, [&](const Record& record) {
    const Delegation& other = record.delegation;
    return other.client_id != client_id && Excludes(other.type, type);
  }) != nullptr;
}

bool Delegations::Holds(const wire::StateId& state_id) const {
  absl::MutexLock lock(&records_.mutex());
  return records_.Find(state_id) != nullptr;
}

std::vector<Delegation> Delegations::OfFiles(
    absl::FunctionRef<bool(const ObjectKey&)> concerns) const {
  std::vector<Delegation> found;
  if (!any()) return found;
  absl::MutexLock lock(&records_.mutex());
  for (const Record* const record :
       records_.Where([concerns](const Record& each) { return concerns(each.delegation.key); })) {
    found.push_back(record->delegation);
  }
  return found;
}

// --- Conflicts ---

bool Delegations::Resolve(const ObjectKey& key, const wire::ClientId& by, Use use,
                          AwaitedDelegations* awaited) {
  bool is_free = true;
  Recalls begun;
  {
    absl::MutexLock lock(&records_.mutex());
    records_.FindOf(key, [&](Record& record) {
      records_.mutex().AssertHeld();
      const Delegation& held = record.delegation;
      if (held.client_id == by) return false;
      if (use == Use::kReads && held.type != Type::kWrite) return false;
      is_free = false;
      RecallLocked(record, begun);
      if (awaited != nullptr) awaited->push_back({held.state_id});
      return false;  // each of them conflicts by itself
    });
  }
  SendRecalls(begun);
  return is_free;
}

void Delegations::Await(const AwaitedDelegation& awaited, absl::AnyInvocable<void()> done) {
  {
    absl::MutexLock lock(&records_.mutex());
    Record* const record = records_.Find(awaited.state_id);
    if (record != nullptr && (!awaited.answer || record->is_asked)) {
      (awaited.answer ? record->answered : record->ended).push_back(std::move(done));
      return;
    }
  }
  done();
}

// --- Recalls ---

DelegationRecall Delegations::RecallOf(const Record& record) const {
  DelegationRecall recall;
  static_cast<Delegation&>(recall) = record.delegation;
  recall.client_name = records_.FindClient(record.delegation.client_id)->name;
  recall.has_holder = !record.awaits_claim;
  return recall;
}

void Delegations::RecallLocked(Record& record, Recalls& begun) {
  if (record.is_recalled) return;
  const absl::Time now = Loop::Now();
  records_.BeginRecall(record, now);
  recent_recalls_.Note(record.delegation.key, now);
  begun.push_back(RecallOf(record));
}

void Delegations::SendRecalls(const Recalls& begun) const {
  if (!may_recall()) return;
  for (const DelegationRecall& recall : begun) recall_(recall);
}

void Delegations::BeginRecall(const wire::StateId& state_id) {
  Recalls begun;
  {
    absl::MutexLock lock(&records_.mutex());
    Record* const record = records_.Find(state_id);
    if (record == nullptr) return;
    RecallLocked(*record, begun);
  }
  SendRecalls(begun);
}

std::vector<DelegationRecall> Delegations::RecallsOf(const wire::ClientId& client_id) const {
  Recalls recalls;
  absl::MutexLock lock(&records_.mutex());
  for (const Record* const record : records_.Where([&client_id](const Record& each) {
         return each.delegation.client_id == client_id && each.is_recalled && !each.awaits_claim;
       })) {
    recalls.push_back(RecallOf(*record));
  }
  return recalls;
}

void Delegations::NoteRevoked(const wire::StateId& state_id) {
  absl::MutexLock lock(&records_.mutex());
  Record* const record = records_.Find(state_id);
  if (record != nullptr) record->is_revoked = true;
}

Delegations::Counts Delegations::GetCounts() const {
  absl::MutexLock lock(&records_.mutex());
  return {records_.count(), records_.recalls()};
}

RecallTimes Delegations::RecallTimesOf(const wire::ClientId& client_id) const {
  absl::MutexLock lock(&records_.mutex());
  const DelegationRecords::Client* const client = records_.FindClient(client_id);
  return client == nullptr ? RecallTimes() : client->recalls;
}

}  // namespace dafs::server
