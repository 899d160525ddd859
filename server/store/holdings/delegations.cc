#include "server/store/holdings/delegations.h"

#include <algorithm>
#include <iterator>

#include "runtime/loop/loop.h"

namespace dafs::server {

namespace {

uint64_t IdOf(const wire::StateId& state_id) { return wire::OpaqueToUint64(state_id); }

uint32_t SecondsOf(absl::Time time) { return static_cast<uint32_t>(absl::ToUnixSeconds(time)); }

// The part of a hash by which latest_recalls_ tells files at one place apart.
uint64_t FileBits(uint64_t hash) { return hash & ~uint64_t{0xffffffff}; }

// Whether a delegation of one client forbids one of `type` to another.
bool Excludes(Delegations::Type held, Delegations::Type type) {
  return held == Delegations::Type::kWrite || type == Delegations::Type::kWrite;
}

}  // namespace

// --- Granting ---

bool Delegations::WasRecalledLately(const ObjectKey& key, absl::Time now) const {
  const size_t hash = absl::HashOf(key);
  const uint64_t latest =
      latest_recalls_[hash % latest_recalls_.size()].load(std::memory_order_relaxed);
  return FileBits(latest) == FileBits(hash) &&
         SecondsOf(now) - static_cast<uint32_t>(latest) < absl::ToInt64Seconds(kNotAgainFor);
}

void Delegations::NoteRecall(const ObjectKey& key, absl::Time now) {
  const size_t hash = absl::HashOf(key);
  latest_recalls_[hash % latest_recalls_.size()].store(FileBits(hash) | SecondsOf(now),
                                                       std::memory_order_relaxed);
}

bool Delegations::MayAdd(const ObjectKey& key, const wire::ClientId& client_id, Type type,
                         absl::Time now) const {
  if (!MayGrant(key, type, now)) return false;
  if (!MayHave(key)) return true;
  absl::MutexLock lock(&mutex_);
  const auto ids = by_key_.find(key);
  return ids == by_key_.end() || std::none_of(ids->second.begin(), ids->second.end(), [&](Id id) {
           mutex_.AssertHeld();
           const Delegation& other = entries_.find(id)->second.delegation;
           return other.client_id == client_id || Excludes(other.type, type);
         });
}

bool Delegations::TryAdd(const Delegation& delegation) {
  std::vector<Recall> begun;
  {
    absl::MutexLock lock(&mutex_);
    const auto client = clients_.find(delegation.client_id);
    if (client == clients_.end() || !client->second.is_admitted) return false;
    if (client->second.held < options_.of_client) {
      AddLocked(delegation);
      return true;
    }
    if (!client->second.idle.empty()) {
      const Id oldest = *client->second.idle.begin();
      RecallLocked(oldest, entries_.find(oldest)->second, begun);
    }
  }
  SendRecalls(begun);
  return false;
}

void Delegations::Add(const Delegation& delegation) {
  absl::MutexLock lock(&mutex_);
  AddLocked(delegation);
}

void Delegations::AddLocked(const Delegation& delegation) {
  const Id id = IdOf(delegation.state_id);
  Entry& entry = entries_[id];
  entry.delegation = delegation;
  by_key_[delegation.key].push_back(id);
  Client& client = clients_[delegation.client_id];
  ++client.held;
  client.idle.insert(id);
  if (delegation.type == Type::kWrite) ++writes_;
  ++CountAt(delegation.key);
  count_.store(entries_.size(), std::memory_order_seq_cst);
}

std::optional<Delegations::Delegation> Delegations::Upgrade(const ObjectKey& key,
                                                            const wire::ClientId& client_id,
                                                            absl::Time now) {
  if (!MayHave(key) || !MayGrant(key, Type::kWrite, now)) return std::nullopt;
  absl::MutexLock lock(&mutex_);
  const auto ids = by_key_.find(key);
  if (ids == by_key_.end() || ids->second.size() != 1) return std::nullopt;
  Entry& entry = entries_.find(ids->second.front())->second;
  if (entry.delegation.client_id != client_id || entry.delegation.type != Type::kRead ||
      entry.is_recalled) {
    return std::nullopt;
  }
  entry.delegation.type = Type::kWrite;
  ++writes_;
  return entry.delegation;
}

bool Delegations::Downgrade(const wire::StateId& state_id) {
  absl::MutexLock lock(&mutex_);
  const auto entry = entries_.find(IdOf(state_id));
  if (entry == entries_.end() || entry->second.is_recalled) return false;
  Type& type = entry->second.delegation.type;
  if (std::exchange(type, Type::kRead) == Type::kWrite) --writes_;
  return true;
}

void Delegations::Remove(const wire::StateId& state_id) { End(state_id, false); }

bool Delegations::EndClaim(const wire::StateId& state_id) { return End(state_id, true); }

bool Delegations::End(const wire::StateId& state_id, bool awaits_claim) {
  Dones over;
  {
    absl::MutexLock lock(&mutex_);
    const auto entry = entries_.find(IdOf(state_id));
    if (entry == entries_.end() || entry->second.awaits_claim != awaits_claim) return false;
    Erase(entry->first, over);
  }
  for (Done& done : over) done();
  return true;
}

void Delegations::Erase(Id id, Dones& over) {
  const auto it = entries_.find(id);
  Entry& entry = it->second;
  std::move(entry.ended.begin(), entry.ended.end(), std::back_inserter(over));
  std::move(entry.answered.begin(), entry.answered.end(), std::back_inserter(over));
  const auto ids = by_key_.find(entry.delegation.key);
  ids->second.erase(std::find(ids->second.begin(), ids->second.end(), id));
  if (ids->second.empty()) by_key_.erase(ids);
  const auto client = clients_.find(entry.delegation.client_id);
  client->second.idle.erase(id);
  if (entry.is_recalled && !entry.awaits_claim) {
    const absl::Duration time = Loop::Now() - entry.recalled_at;
    recalls_.End(time, entry.is_revoked);
    client->second.recalls.End(time, entry.is_revoked);
  }
  if (--client->second.held == 0 && !client->second.is_admitted) clients_.erase(client);
  if (entry.delegation.type == Type::kWrite) --writes_;
  --CountAt(entry.delegation.key);
  entries_.erase(it);
  count_.store(entries_.size(), std::memory_order_seq_cst);
}

std::optional<Delegations::Delegation> Delegations::Find(const ObjectKey& key,
                                                         const wire::ClientId& client_id) const {
  if (!MayHave(key)) return std::nullopt;
  absl::MutexLock lock(&mutex_);
  const auto ids = by_key_.find(key);
  if (ids == by_key_.end()) return std::nullopt;
  for (const Id id : ids->second) {
    const Entry& entry = entries_.find(id)->second;
    if (entry.delegation.client_id == client_id && !entry.awaits_claim) return entry.delegation;
  }
  return std::nullopt;
}

bool Delegations::Has(const ObjectKey& key) const {
  if (!MayHave(key)) return false;
  absl::MutexLock lock(&mutex_);
  return by_key_.contains(key);
}

bool Delegations::HasConflict(const ObjectKey& key, const wire::ClientId& client_id,
                              Type type) const {
  absl::MutexLock lock(&mutex_);
  const auto ids = by_key_.find(key);
  return ids != by_key_.end() && std::any_of(ids->second.begin(), ids->second.end(), [&](Id id) {
           mutex_.AssertHeld();
           const Delegation& other = entries_.find(id)->second.delegation;
           return other.client_id != client_id && Excludes(other.type, type);
         });
}

// --- Conflicts ---

Delegations::Recall Delegations::RecallOf(const Entry& entry) const {
  Recall recall;
  static_cast<Delegation&>(recall) = entry.delegation;
  recall.client_name = clients_.find(entry.delegation.client_id)->second.name;
  recall.has_holder = !entry.awaits_claim;
  return recall;
}

void Delegations::RecallLocked(Id id, Entry& entry, std::vector<Recall>& begun) {
  if (std::exchange(entry.is_recalled, true)) return;
  Client& client = clients_.find(entry.delegation.client_id)->second;
  client.idle.erase(id);
  entry.recalled_at = Loop::Now();
  NoteRecall(entry.delegation.key, entry.recalled_at);
  ++recalls_.begun;
  ++client.recalls.begun;
  begun.push_back(RecallOf(entry));
}

void Delegations::SendRecalls(const std::vector<Recall>& begun) const {
  if (!may_recall()) return;
  for (const Recall& recall : begun) hooks_.on_recall(recall);
}

bool Delegations::Resolve(const ObjectKey& key, const wire::ClientId& by, Use use,
                          AwaitedList* awaited) {
  bool is_free = true;
  std::vector<Recall> begun;
  {
    absl::MutexLock lock(&mutex_);
    const auto ids = by_key_.find(key);
    if (ids == by_key_.end()) return true;
    for (const Id id : ids->second) {
      Entry& entry = entries_.find(id)->second;
      if (entry.delegation.client_id == by) continue;
      if (use == Use::kReads && entry.delegation.type != Type::kWrite) continue;
      is_free = false;
      RecallLocked(id, entry, begun);
      if (awaited != nullptr) awaited->push_back({entry.delegation.state_id});
    }
  }
  SendRecalls(begun);
  return is_free;
}

void Delegations::BeginRecall(const wire::StateId& state_id) {
  std::vector<Recall> begun;
  {
    absl::MutexLock lock(&mutex_);
    const auto entry = entries_.find(IdOf(state_id));
    if (entry == entries_.end()) return;
    RecallLocked(entry->first, entry->second, begun);
  }
  SendRecalls(begun);
}

bool Delegations::GetReported(const ObjectKey& key, const wire::ClientId& by, absl::Time now,
                              AwaitedList* awaited, Values* values) {
  std::optional<Delegation> ask;
  {
    absl::MutexLock lock(&mutex_);
    const auto ids = by_key_.find(key);
    if (ids == by_key_.end()) return true;
    for (const Id id : ids->second) {
      Entry& entry = entries_.find(id)->second;
      const Delegation& held = entry.delegation;
      if (held.client_id == by || held.type != Type::kWrite || entry.awaits_claim) continue;
      if (!entry.is_asked && now - entry.reported_at < kAskedFor) {
        *values = entry.reported;
        return true;
      }
      if (!std::exchange(entry.is_asked, true)) ask = held;
      if (awaited != nullptr) awaited->push_back({held.state_id, /*answer=*/true});
      break;
    }
  }
  if (ask.has_value()) hooks_.on_ask(*ask);
  return awaited == nullptr || awaited->empty();
}

void Delegations::SetReported(const wire::StateId& state_id, const Values& values, absl::Time now) {
  Dones answered;
  {
    absl::MutexLock lock(&mutex_);
    const auto entry = entries_.find(IdOf(state_id));
    if (entry == entries_.end() || !std::exchange(entry->second.is_asked, false)) return;
    entry->second.reported = values;
    entry->second.reported_at = now;
    answered = std::exchange(entry->second.answered, {});
  }
  for (Done& done : answered) done();
}

void Delegations::Await(const Awaited& awaited, absl::AnyInvocable<void()> done) {
  {
    absl::MutexLock lock(&mutex_);
    const auto entry = entries_.find(IdOf(awaited.state_id));
    if (entry != entries_.end() && (!awaited.answer || entry->second.is_asked)) {
      (awaited.answer ? entry->second.answered : entry->second.ended).push_back(std::move(done));
      return;
    }
  }
  done();
}

std::vector<Delegations::Recall> Delegations::RecallsOf(const wire::ClientId& client_id) const {
  std::vector<Recall> recalls;
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, entry] : entries_) {
    if (entry.delegation.client_id == client_id && entry.is_recalled && !entry.awaits_claim) {
      recalls.push_back(RecallOf(entry));
    }
  }
  return recalls;
}

void Delegations::NoteRevoked(const wire::StateId& state_id) {
  absl::MutexLock lock(&mutex_);
  const auto entry = entries_.find(IdOf(state_id));
  if (entry != entries_.end()) entry->second.is_revoked = true;
}

void Delegations::RecallTimes::End(absl::Duration time, bool is_revoked) {
  ++ended;
  if (is_revoked) ++revoked;
  total += time;
  longest = std::max(longest, time);
}

Delegations::Counts Delegations::GetCounts() const {
  absl::MutexLock lock(&mutex_);
  return {entries_.size(), recalls_};
}

Delegations::RecallTimes Delegations::RecallTimesOf(const wire::ClientId& client_id) const {
  absl::MutexLock lock(&mutex_);
  const auto client = clients_.find(client_id);
  return client == clients_.end() ? RecallTimes() : client->second.recalls;
}

std::vector<Delegations::Delegation> Delegations::OfFiles(
    absl::FunctionRef<bool(const ObjectKey&)> concerns) const {
  std::vector<Delegation> found;
  if (!any()) return found;
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, entry] : entries_) {
    if (concerns(entry.delegation.key)) found.push_back(entry.delegation);
  }
  return found;
}

bool Delegations::Holds(const wire::StateId& state_id) const {
  absl::MutexLock lock(&mutex_);
  return entries_.contains(IdOf(state_id));
}

}  // namespace dafs::server
