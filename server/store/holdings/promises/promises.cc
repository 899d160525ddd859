#include "server/store/holdings/promises/promises.h"

#include <algorithm>
#include <optional>

#include "server/store/holdings/promises/promises_parts.h"

namespace dafs::server {

namespace {

// A client is crowded above the first, and PickToEnd goes on down to the second.
uint32_t HighMark(uint32_t most) { return most - most / 16; }
uint32_t LowMark(uint32_t most) { return most - most / 8; }

}  // namespace

Promises::Promises(Limits limits) : limits_(limits), clients_(new Client[kClientsMax]) {
  for (auto& shard : shards_) shard = std::make_unique<Shard>();
}

Promises::~Promises() = default;

Promises::Client* Promises::Find(Promisee promisee) const {
  Client& client = clients_[promisee % kClientsMax];
  return promisee != 0 && client.promisee.load(std::memory_order_acquire) == promisee ? &client
                                                                                      : nullptr;
}

// --- Clients ---

Promisee Promises::Admit(const wire::ClientId& id, std::string_view name, uint32_t most,
                         uint32_t* granted) {
  *granted = std::min(most, limits_.of_client);
  Promisee promisee = 0;
  {
    absl::MutexLock lock(&clients_mutex_);
    auto it = by_id_.find(id);
    if (it == by_id_.end() && *granted > 0) {
      if (free_.empty() && used_ < kClientsMax) free_.push_back(used_++);
      if (!free_.empty()) {
        it = by_id_.emplace(id, free_.back()).first;
        free_.pop_back();
        Client& added = clients_[it->second];
        ++added.generation;
        added.id = wire::OpaqueToUint64(id);
        added.promisee = static_cast<Promisee>(added.generation * kClientsMax + it->second);
      }
    }
    if (it != by_id_.end()) {
      Client& client = clients_[it->second];
      client.admission = 0;
      Sweep(it->second, /*also_called=*/true);
      client.most = *granted;
      client.endings = 0;
      client.is_void = *granted == 0;
      client.is_overdue = false;
      client.admission = *granted > 0 ? NextAdmission() : 0;
      promisee = *granted > 0 ? client.promisee.load() : 0;
    }
  }
  if (promisee == 0) *granted = 0;
  Returned(name);
  return promisee;
}

uint32_t Promises::NextAdmission() {
  if (++last_admission_ == 0) ++last_admission_;
  return last_admission_;
}

bool Promises::Void(Promisee promisee) {
  absl::MutexLock lock(&clients_mutex_);
  Client* const client = Find(promisee);
  if (client == nullptr || client->is_void) return false;
  client->is_void = true;
  client->admission = 0;
  Sweep(promisee % kClientsMax, /*also_called=*/true);
  voided_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Promises::Overdue(Promisee promisee, absl::Time now) {
  absl::MutexLock lock(&clients_mutex_);
  Client* const client = Find(promisee);
  if (client == nullptr || client->is_overdue) return;
  client->overdue_since = now;
  client->is_overdue = true;
}

absl::Time Promises::OverdueSince(Promisee promisee) const {
  absl::MutexLock lock(&clients_mutex_);
  const Client* const client = Find(promisee);
  return client != nullptr && client->is_overdue ? client->overdue_since : absl::InfiniteFuture();
}

Promisee Promises::PromiseeOf(const wire::ClientId& id) const {
  absl::MutexLock lock(&clients_mutex_);
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? 0 : clients_[it->second].promisee.load();
}

bool Promises::IsVoid(Promisee promisee) const {
  if (promisee == 0) return false;
  const Client* const client = Find(promisee);
  return client == nullptr || client->is_void.load(std::memory_order_acquire) ||
         client->is_overdue.load(std::memory_order_acquire);
}

void Promises::Forget(const wire::ClientId& id) {
  absl::MutexLock lock(&clients_mutex_);
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return;
  Client& client = clients_[it->second];
  client.promisee = 0;
  client.is_void = true;
  client.admission = 0;
  Sweep(it->second, /*also_called=*/true);
  free_.push_back(it->second);
  by_id_.erase(it);
}

void Promises::Sweep(size_t index, bool also_called) {
  for (auto& shard : shards_) {
    absl::MutexLock lock(&shard->mutex);
    PromiseTable& table = shard->table;
    for (uint32_t number = table.Oldest(index); number != 0;) {
      PromiseHolder& holder = table.holder(number);
      const uint32_t next = holder.newer;
      holder.what = 0;
      if (also_called) holder.calls = 0;
      RemoveIfOver(*shard, number);
      number = next;
    }
  }
  clients_[index].is_crowded = false;
  is_crowded_ = false;
}

void Promises::RemoveIfOver(Shard& shard, uint32_t number) {
  const PromiseHolder& holder = shard.table.holder(number);
  if (holder.what != 0 || holder.calls != 0) return;
  clients_[holder.client].held.fetch_sub(1, std::memory_order_relaxed);
  held_.fetch_sub(1, std::memory_order_relaxed);
  shard.table.RemoveHolder(number);
}

// --- Promises ---

uint8_t Promises::GiveLocked(Shard& shard, uint32_t object, size_t hash, const ObjectKey& key,
                             Promisee to, uint8_t what) {
  Client* const client = Find(to);
  if (client == nullptr || client->admission == 0 || client->endings != 0) return 0;
  if (client->is_overdue) return 0;
  PromiseTable& table = shard.table;
  if (object != 0) {
    if (shard.IsOpenToOthers(object, client->id)) what &= ~kPromisedAttributes;
    if (what == 0) return 0;
    if (const uint32_t number = table.FindHolder(table.object(object), to % kClientsMax)) {
      PromiseHolder& holder = table.holder(number);
      if (holder.calls != 0) return 0;
      holder.what |= what;
      holder.is_used = 1;
      if ((what & kPromisedNames) != 0) holder.named_calls = 0;
      return what;
    }
  }
  const bool fits = client->held.fetch_add(1, std::memory_order_relaxed) < client->most;
  if (held_.fetch_add(1, std::memory_order_relaxed) >= limits_.of_all || !fits) {
    client->held.fetch_sub(1, std::memory_order_relaxed);
    held_.fetch_sub(1, std::memory_order_relaxed);
    refused_.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  if (object == 0) object = table.Add(hash, key);
  table.holder(table.AddHolder(object, to % kClientsMax)).what = what;
  return what;
}

uint8_t Promises::Give(const ObjectKey& key, Promisee to, uint8_t what) {
  if (to == 0) return 0;
  const size_t hash = PromiseTable::Hash(key);
  Shard& shard = ShardOf(hash);
  uint8_t given = 0;
  {
    absl::MutexLock lock(&shard.mutex);
    const uint32_t object = shard.table.Find(hash, key);
    if (object != 0 && shard.table.object(object).marks != 0) return 0;
    given = GiveLocked(shard, object, hash, key, to, what);
  }
  CheckRoom(to);
  return given;
}

void Promises::OpenedToWrite(const ObjectKey& key, const wire::ClientId& client) {
  if (limits_.of_client == 0) return;
  const uint64_t id = wire::OpaqueToUint64(client);
  const size_t hash = PromiseTable::Hash(key);
  Shard& shard = ShardOf(hash);
  absl::MutexLock lock(&shard.mutex);
  const uint32_t object = shard.table.FindOrAdd(hash, key);
  shard.table.object(object).is_open_to_write = true;
  Shard::Writers& writers = shard.writers[object];
  const auto it = Shard::FindWriter(writers, id);
  if (it == writers.end()) {
    writers.push_back({id, 1});
  } else {
    ++it->opens;
  }
}

void Promises::ClosedToWrite(const ObjectKey& key, const wire::ClientId& client) {
  if (limits_.of_client == 0) return;
  const uint64_t id = wire::OpaqueToUint64(client);
  const size_t hash = PromiseTable::Hash(key);
  Shard& shard = ShardOf(hash);
  absl::MutexLock lock(&shard.mutex);
  const uint32_t object = shard.table.Find(hash, key);
  if (object == 0 || !shard.table.object(object).is_open_to_write) return;
  Shard::Writers& writers = shard.writers[object];
  const auto it = Shard::FindWriter(writers, id);
  if (it == writers.end() || --it->opens > 0) return;
  writers.erase(it);
  if (!writers.empty()) return;
  shard.writers.erase(object);
  shard.table.object(object).is_open_to_write = false;
  shard.table.EraseIfUnused(object);
}

void Promises::Dropped(const Call& call) {
  if (call.what == kPromisedAll) {
    absl::MutexLock lock(&clients_mutex_);
    Client* const client = Find(call.holder);
    if (client == nullptr || client->admission != call.admission) return;
    Sweep(call.holder % kClientsMax, /*also_called=*/false);
    --client->endings;
    return;
  }
  uint8_t over = call.what;
  if (!call.name.empty()) over &= ~kPromisedNames;
  EndCall(call, over);
}

void Promises::EndCall(const Call& call, uint8_t over) {
  const size_t hash = PromiseTable::Hash(call.key);
  Shard& shard = ShardOf(hash);
  absl::MutexLock lock(&shard.mutex);
  const Client* const client = Find(call.holder);
  if (client == nullptr || client->admission != call.admission) return;
  const uint32_t object = shard.table.Find(hash, call.key);
  if (object == 0) return;
  const uint32_t number =
      shard.table.FindHolder(shard.table.object(object), call.holder % kClientsMax);
  if (number == 0) return;
  PromiseHolder& holder = shard.table.holder(number);
  if (holder.calls == 0) return;
  --holder.calls;
  holder.what &= ~over;
  RemoveIfOver(shard, number);
}

// --- Making room ---

Promises::Client* Promises::Largest() const {
  return std::max_element(
      clients_.get(), clients_.get() + kClientsMax,
      [](const Client& a, const Client& b) { return a.held.load() < b.held.load(); });
}

void Promises::CheckRoom(Promisee promisee) {
  Client* crowded = Find(promisee);
  if (crowded == nullptr || on_crowded_ == nullptr) return;
  const bool is_full = crowded->held.load(std::memory_order_relaxed) >=
                       HighMark(crowded->most.load(std::memory_order_relaxed));
  if (!is_full) {
    if (held_.load(std::memory_order_relaxed) < HighMark(limits_.of_all)) return;
    if (is_crowded_.exchange(true)) return;
    crowded = Largest();
  }
  if (crowded->is_crowded.exchange(true)) return;
  on_crowded_(crowded->promisee);
}

std::vector<Promises::Call> Promises::PickToEnd(Promisee promisee, size_t most) {
  std::vector<Call> calls;
  Client* const client = Find(promisee);
  if (client == nullptr) return calls;
  const bool is_full = client->held > LowMark(client->most);
  const bool all_are_full = held_ > LowMark(limits_.of_all);
  if (is_full || (all_are_full && Largest()->held <= client->held)) {
    for (size_t i = 0; i < kShards && calls.size() < most; ++i) {
      PickFrom(*shards_[client->next_shard++ % kShards], promisee, most, calls);
    }
  }
  called_.fetch_add(calls.size(), std::memory_order_relaxed);
  if (calls.empty()) {
    client->is_crowded = false;
    is_crowded_ = false;
  }
  return calls;
}

// Picks a few of one shard. Promises that were given again since the last call stay.
void Promises::PickFrom(Shard& shard, Promisee promisee, size_t most, std::vector<Call>& calls) {
  constexpr int kLookedAt = 32;
  constexpr int kPicked = 8;
  absl::MutexLock lock(&shard.mutex);
  const Client* const client = Find(promisee);
  if (client == nullptr || client->admission == 0) return;
  PromiseTable& table = shard.table;
  int picked = 0;
  uint32_t number = table.Oldest(promisee % kClientsMax);
  for (int i = 0; i < kLookedAt && number != 0 && picked < kPicked && calls.size() < most; ++i) {
    PromiseHolder& holder = table.holder(number);
    const uint32_t next = holder.newer;
    if (holder.calls != 0 || holder.is_used != 0) {
      holder.is_used = 0;
      table.MakeNewest(number);
    } else {
      ++holder.calls;
      ++picked;
      calls.push_back(
          {promisee, holder.what, table.object(holder.object).key, "", client->admission});
    }
    number = next;
  }
}

std::vector<Promises::Call> Promises::CallAll(
    absl::FunctionRef<bool(const wire::ClientId&)> concerns) {
  std::vector<Call> calls;
  absl::MutexLock lock(&clients_mutex_);
  for (const auto& [id, index] : by_id_) {
    Client& client = clients_[index];
    if (client.admission == 0 || !concerns(id)) continue;
    ++client.endings;
    calls.push_back({client.promisee, kPromisedAll, ObjectKey(), "", client.admission});
  }
  called_.fetch_add(calls.size(), std::memory_order_relaxed);
  return calls;
}

// --- After a restart ---

void Promises::SetReturning(std::set<std::string, std::less<>> names) {
  absl::MutexLock lock(&return_mutex_);
  returning_ = std::move(names);
  is_returning_.store(!returning_.empty(), std::memory_order_release);
}

bool Promises::Awaits(std::string_view by_name) const {
  return returning_.size() > (returning_.contains(by_name) ? 1 : 0);
}

bool Promises::AwaitsOther(std::string_view by_name) const {
  absl::MutexLock lock(&return_mutex_);
  return Awaits(by_name);
}

std::vector<absl::AnyInvocable<void()>> Promises::TakeReady() {
  is_returning_.store(!returning_.empty(), std::memory_order_release);
  std::vector<absl::AnyInvocable<void()>> ready;
  std::vector<Waiter> others;
  for (Waiter& waiter : waiters_) {
    if (Awaits(waiter.by_name)) {
      others.push_back(std::move(waiter));
    } else {
      ready.push_back(std::move(waiter.done));
    }
  }
  waiters_ = std::move(others);
  return ready;
}

void Promises::Returned(std::string_view name) {
  if (!is_returning_.load(std::memory_order_acquire)) return;
  std::vector<absl::AnyInvocable<void()>> ready;
  {
    absl::MutexLock lock(&return_mutex_);
    const auto it = returning_.find(name);
    if (it == returning_.end()) return;
    returning_.erase(it);
    ready = TakeReady();
  }
  for (auto& done : ready) done();
}

std::vector<std::string> Promises::EndReturning() {
  std::vector<absl::AnyInvocable<void()>> ready;
  std::vector<std::string> absent;
  {
    absl::MutexLock lock(&return_mutex_);
    absent.assign(returning_.begin(), returning_.end());
    returning_.clear();
    ready = TakeReady();
  }
  for (auto& done : ready) done();
  return absent;
}

void Promises::AwaitReturn(std::string_view by_name, absl::AnyInvocable<void()> done) {
  {
    absl::MutexLock lock(&return_mutex_);
    if (Awaits(by_name)) {
      waiters_.push_back({std::string(by_name), std::move(done)});
      return;
    }
  }
  done();
}

uint64_t Promises::HeldBy(Promisee client) const {
  const Client* const holder = Find(client);
  return holder == nullptr ? 0 : holder->held.load(std::memory_order_relaxed);
}

Promises::Counts Promises::GetCounts() const {
  Counts counts;
  counts.promises = held_;
  counts.calls = called_;
  counts.voided = voided_;
  counts.refused = refused_;
  absl::MutexLock lock(&clients_mutex_);
  for (const auto& [id, index] : by_id_) counts.clients += clients_[index].is_void ? 0 : 1;
  return counts;
}

}  // namespace dafs::server
