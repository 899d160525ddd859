#include "server/store/holdings/grace.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "runtime/fnv.h"
#include "runtime/text.h"
#include "server/store/holdings/caller.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Decrements `count` unless it is 0.
void Decrease(std::atomic<uint32_t>& count) {
  if (count > 0) --count;
}

size_t ClaimOf(std::string_view client_name, const ObjectKey& file, uint64_t owner_sum) {
  return absl::HashOf(Text(client_name), file, owner_sum);
}

}  // namespace

bool Grace::IsOwedToOthers(std::string_view client_name,
                           std::atomic<uint32_t> Holdings::*count) const {
  if (unknown_ != nullptr) return true;
  return std::any_of(expected_.begin(), expected_.end(), [&](const auto& client) {
    return client.first != client_name && client.second->*count > 0;
  });
}

uint64_t Grace::SumOf(std::string_view owner) { return Fnv64(owner); }

void Grace::Start(Owed owed, absl::Time until, const std::vector<size_t>& late) {
  absl::MutexLock lock(&mutex_);
  unknown_ = owed.unknown;
  for (Expected& client : owed.expected) {
    if (!client.holdings->owes()) continue;
    known_[client.client_name] = client.holdings->lost_locks > 0 || client.may_have_delegations;
    if (client.may_have_delegations) delegated_.insert(client.client_name);
    expected_[std::move(client.client_name)] = client.holdings;
  }
  for (const Uncounted& open : owed.uncounted) {
    counted_.insert(ClaimOf(open.client_name, open.file, open.owner_sum));
  }
  doubts_ = std::move(owed.doubts);
  unknown_opens_ = std::move(owed.unknown_opens);
  on_partly_over_ = std::move(owed.on_partly_over);
  until_ = until;
  is_over_ = false;
  for (size_t export_index : late) late_[export_index] = Late();
  end_is_reported_ = false;
  may_reclaim_.store(!known_.empty() || unknown_ != nullptr, std::memory_order_release);
  active_.store(true, std::memory_order_release);
  Settle();
}

void Grace::Arrived(size_t export_index, Owed owed, absl::Time until) {
  absl::MutexLock lock(&mutex_);
  auto it = late_.find(export_index);
  if (it == late_.end() || it->second.has_arrived) return;
  it->second.until = until;
  it->second.has_arrived = true;
  for (const Uncounted& open : owed.uncounted) {
    counted_.insert(ClaimOf(open.client_name, open.file, open.owner_sum));
  }
  doubts_.insert(doubts_.end(), owed.doubts.begin(), owed.doubts.end());
  unknown_opens_.insert(unknown_opens_.end(), owed.unknown_opens.begin(), owed.unknown_opens.end());
  Settle();
}

// Ends the period once no client may reclaim, no file is in doubt, and no response to an OPEN is
// unfetched. After its time limit, it goes on for late exports that have arrived.
void Grace::Settle() {
  std::erase_if(expected_, [](const auto& client) { return !client.second->owes(); });
  const bool awaits =
      !expected_.empty() || !doubts_.empty() || !unknown_opens_.empty() || unknown_ != nullptr;
  const bool lasts = !is_over_ || std::any_of(late_.begin(), late_.end(), [](const auto& late) {
    return late.second.has_arrived && !late.second.reported;
  });
  active_.store(awaits && lasts, std::memory_order_release);
}

bool Grace::IsOver(const ObjectKey& file) const {
  if (!is_over_) return false;
  if (late_.empty()) return true;
  const std::optional<size_t> index = export_of_(file);
  const auto it = index ? late_.find(*index) : late_.end();
  return it == late_.end() || it->second.reported;
}

bool Grace::IsAnyLate() const {
  return std::any_of(late_.begin(), late_.end(),
                     [](const auto& late) { return !late.second.reported; });
}

bool Grace::expects_opens(const ObjectKey& file) const {
  absl::ReaderMutexLock lock(&mutex_);
  if (IsOver(file)) return false;
  return unknown_ != nullptr || !unknown_opens_.empty() ||
         std::any_of(expected_.begin(), expected_.end(),
                     [](const auto& client) { return client.second->lost_opens > 0; });
}

DafsStatus Grace::CheckDoubt(const Caller& caller, const ObjectKey& file) const {
  for (const Doubt& doubt : doubts_) {
    if (doubt.file == file && doubt.client_name != caller.client_name) return DafsStatus::kGrace;
  }
  return DafsStatus::kOk;
}

// A client that makes a new request has reclaimed its locks and reservations (5.2.5). If its count
// is not 0, the client missed the responses that granted the rest, or the count was unknown. With a
// late export it may be that the client could not reclaim them yet.
void Grace::NewRequest(const Caller& caller) {
  if (IsAnyLate()) return;
  auto it = expected_.find(caller.client_name);
  if (it == expected_.end()) return;
  it->second->lost_locks = it->second->lost_deniers = 0;
  Settle();
}

void Grace::NoteRequest(const Caller& caller) {
  absl::MutexLock lock(&mutex_);
  auto it = expected_.find(caller.client_name);
  if (it != expected_.end() && it->second->owes_unknown()) NewRequest(caller);
}

// A client's own unreclaimed holdings do not conflict with its requests.
DafsStatus Grace::CheckOpen(const Caller& caller, const ObjectKey& file, bool denies) {
  absl::MutexLock lock(&mutex_);
  if (IsOver(file)) return DafsStatus::kOk;
  NewRequest(caller);
  if (IsOwedToOthers(caller.client_name, &Holdings::lost_deniers) ||
      (denies && IsOwedToOthers(caller.client_name, &Holdings::lost_opens))) {
    return DafsStatus::kGrace;
  }
  return CheckDoubt(caller, file);
}

DafsStatus Grace::CheckIo(const Caller& caller, const ObjectKey& file, bool has_state) {
  absl::MutexLock lock(&mutex_);
  if (IsOver(file)) return DafsStatus::kOk;
  NewRequest(caller);
  if (IsOwedToOthers(caller.client_name, &Holdings::lost_locks) ||
      (!has_state && IsOwedToOthers(caller.client_name, &Holdings::lost_deniers))) {
    return DafsStatus::kGrace;
  }
  return CheckDoubt(caller, file);
}

DafsStatus Grace::CheckLock(const Caller& caller, const ObjectKey& file) {
  absl::MutexLock lock(&mutex_);
  if (IsOver(file)) return DafsStatus::kOk;
  NewRequest(caller);
  const bool is_hidden = std::any_of(delegated_.begin(), delegated_.end(), [&](const auto& name) {
    mutex_.AssertHeld();
    const auto client = expected_.find(name);
    return name != caller.client_name && client != expected_.end() &&
           client->second->lost_opens > 0;
  });
  if (is_hidden || IsOwedToOthers(caller.client_name, &Holdings::lost_locks)) {
    return DafsStatus::kGrace;
  }
  return CheckDoubt(caller, file);
}

DafsStatus Grace::MayReclaimOpen(const Caller& caller, const ObjectKey& file, bool denies) const {
  absl::ReaderMutexLock guard(&mutex_);
  if (IsOver(file)) return DafsStatus::kExpired;
  if (unknown_ != nullptr) return DafsStatus::kOk;
  if (!known_.contains(caller.client_name)) return DafsStatus::kExpired;
  auto it = expected_.find(caller.client_name);
  const bool owed = it != expected_.end() && it->second->lost_deniers > 0;
  return owed || !denies ? DafsStatus::kOk : DafsStatus::kExpired;
}

DafsStatus Grace::MayReclaimLock(const Caller& caller, const ObjectKey& file) const {
  absl::ReaderMutexLock guard(&mutex_);
  if (IsOver(file)) return DafsStatus::kExpired;
  if (unknown_ != nullptr) return DafsStatus::kOk;
  auto known = known_.find(caller.client_name);
  if (known == known_.end() || !known->second) return DafsStatus::kExpired;
  auto it = expected_.find(caller.client_name);
  const bool owed = it != expected_.end() && it->second->lost_locks > 0;
  const bool free = granted_.size() < kGrantedMax && !granted_.contains(file);
  return owed || free ? DafsStatus::kOk : DafsStatus::kExpired;
}

void Grace::Granted(const ObjectKey& file) {
  if (!may_reclaim_.load(std::memory_order_acquire)) return;
  absl::MutexLock lock(&mutex_);
  if (granted_.size() < kGrantedMax) granted_.insert(file);
}

void Grace::Reclaimed(const Caller& caller, const ObjectKey& file, std::string_view owner,
                      bool denies) {
  absl::MutexLock lock(&mutex_);
  auto it = expected_.find(caller.client_name);
  if (it == expected_.end()) return;
  if (!counted_.insert(ClaimOf(caller.client_name, file, SumOf(owner))).second) return;
  if (delegated_.contains(caller.client_name)) return;
  Decrease(it->second->lost_opens);
  if (denies) Decrease(it->second->lost_deniers);
  // Without opens there are no reservations.
  if (it->second->lost_opens == 0) it->second->lost_deniers = 0;
  Settle();
}

void Grace::ReclaimedLock(const Caller& caller) {
  absl::MutexLock lock(&mutex_);
  auto it = expected_.find(caller.client_name);
  if (it == expected_.end()) return;
  Decrease(it->second->lost_locks);
  Settle();
}

void Grace::OpensReclaimed(const Caller& caller) {
  absl::MutexLock lock(&mutex_);
  if (IsAnyLate()) return;
  auto it = expected_.find(caller.client_name);
  if (it == expected_.end()) return;
  it->second->lost_opens = it->second->lost_deniers = 0;
  Settle();
}

void Grace::Complete(std::string_view client_name) {
  absl::MutexLock lock(&mutex_);
  if (auto known = known_.find(client_name); known != known_.end()) known_.erase(known);
  auto it = expected_.find(client_name);
  if (it == expected_.end()) return;
  it->second->ForgetLost();
  Settle();
}

void Grace::Review() {
  if (!active()) return;
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, holdings] : expected_) {
    if (!holdings->owes()) known_.erase(name);
  }
  Settle();
}

void Grace::Asked(const wire::SessionId& session_id) {
  if (!active()) return;
  absl::MutexLock lock(&mutex_);
  std::erase_if(doubts_, [&](const Doubt& doubt) { return doubt.session_id == session_id; });
  Settle();
}

void Grace::Discarded(const wire::SessionId& session_id) {
  if (!active()) return;
  absl::MutexLock lock(&mutex_);
  std::erase_if(doubts_, [&](const Doubt& doubt) { return doubt.session_id == session_id; });
  std::erase(unknown_opens_, session_id);
  Settle();
}

bool Grace::Ending::In(size_t export_index) const {
  const auto has = [export_index](const std::vector<size_t>& exports) {
    return std::find(exports.begin(), exports.end(), export_index) != exports.end();
  };
  return has(late) || (others && !has(was_late));
}

void Grace::ForgetAll() {
  may_reclaim_.store(false, std::memory_order_release);
  known_.clear();
  granted_.clear();
  counted_.clear();
  for (auto& [name, holdings] : expected_) holdings->ForgetLost();
  if (unknown_ != nullptr) std::exchange(unknown_, nullptr)->ForgetLost();
  doubts_.clear();
  unknown_opens_.clear();
}

Grace::State Grace::GetState() const {
  absl::ReaderMutexLock lock(&mutex_);
  return {.is_active = active(),
          .until = until_,
          .expected = expected_.size(),
          .awaits_anyone = unknown_ != nullptr};
}

std::optional<Grace::Ending> Grace::Ended(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (!is_over_ && now >= until_) {
    is_over_ = true;
    if (IsAnyLate() && on_partly_over_) on_partly_over_();
  }
  Settle();
  Ending ending;
  const bool settled = !active();
  for (auto& [export_index, late] : late_) {
    ending.was_late.push_back(export_index);
    const bool over = late.until <= now || (settled && late.has_arrived);
    if (!over || std::exchange(late.reported, true)) continue;
    ending.late.push_back(export_index);
  }
  if (is_over_ && !IsAnyLate()) ForgetAll();
  Settle();
  ending.others = (is_over_ || !active()) && !std::exchange(end_is_reported_, true);
  if (!ending.others && ending.late.empty()) return std::nullopt;
  return ending;
}

}  // namespace dafs::server
