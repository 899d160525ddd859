#include "server/store/grace.h"

#include <algorithm>
#include <utility>

#include "server/store/store.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// One less, but never less than nothing.
void Decrease(std::atomic<uint32_t>& count) {
  if (count > 0) --count;
}

}  // namespace

void Grace::Start(std::vector<Expected> expected, std::vector<Doubt> doubts, absl::Time until) {
  absl::MutexLock lock(&mutex_);
  for (Expected& client : expected) {
    if (client.holdings->owes()) expected_[std::move(client.client_name)] = client.holdings;
  }
  doubts_ = std::move(doubts);
  until_ = until;
  told_ = false;
  active_.store(true, std::memory_order_release);
  Settle();
}

// Nobody waits once there is nobody to wait for.
void Grace::Settle() {
  std::erase_if(expected_, [](const auto& client) { return !client.second->owes(); });
  if (expected_.empty() && doubts_.empty()) active_.store(false, std::memory_order_release);
}

bool Grace::expects_opens() const {
  absl::ReaderMutexLock lock(&mutex_);
  return std::any_of(expected_.begin(), expected_.end(),
                     [](const auto& client) { return client.second->lost_opens > 0; });
}

DafsStatus Grace::CheckDoubt(const Caller& caller, const ObjectKey& file) const {
  for (const Doubt& doubt : doubts_) {
    if (doubt.file == file && doubt.client_name != caller.client_name) return DafsStatus::kGrace;
  }
  return DafsStatus::kOk;
}

// What a client itself has still to reclaim conflicts with nothing that it does.
DafsStatus Grace::CheckOpen(const Caller& caller, const ObjectKey& file, bool denies) const {
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& [name, holdings] : expected_) {
    if (name == caller.client_name) continue;
    if (holdings->lost_deniers > 0 || (denies && holdings->lost_opens > 0)) {
      return DafsStatus::kGrace;
    }
  }
  return CheckDoubt(caller, file);
}

DafsStatus Grace::CheckIo(const Caller& caller, const ObjectKey& file, bool has_state) const {
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& [name, holdings] : expected_) {
    if (name == caller.client_name) continue;
    if (holdings->lost_locks > 0 || (!has_state && holdings->lost_deniers > 0)) {
      return DafsStatus::kGrace;
    }
  }
  return CheckDoubt(caller, file);
}

DafsStatus Grace::CheckLock(const Caller& caller, const ObjectKey& file) const {
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& [name, holdings] : expected_) {
    if (name != caller.client_name && holdings->lost_locks > 0) return DafsStatus::kGrace;
  }
  return CheckDoubt(caller, file);
}

DafsStatus Grace::MayReclaim(const Caller& caller, bool lock) const {
  absl::ReaderMutexLock guard(&mutex_);
  auto it = expected_.find(caller.client_name);
  if (it == expected_.end()) return DafsStatus::kExpired;
  const bool owed = lock ? it->second->lost_locks > 0 : it->second->lost_opens > 0;
  return owed ? DafsStatus::kOk : DafsStatus::kExpired;
}

void Grace::Reclaimed(const Caller& caller, bool denies) {
  absl::MutexLock lock(&mutex_);
  auto it = expected_.find(caller.client_name);
  if (it == expected_.end()) return;
  Decrease(it->second->lost_opens);
  if (denies) Decrease(it->second->lost_deniers);
  // Reservations come with opens.
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

void Grace::Complete(std::string_view client_name) {
  absl::MutexLock lock(&mutex_);
  auto it = expected_.find(client_name);
  if (it == expected_.end()) return;
  it->second->ForgetLost();
  Settle();
}

void Grace::Review() {
  if (!active()) return;
  absl::MutexLock lock(&mutex_);
  Settle();
}

void Grace::Asked(const wire::SessionId& session_id) {
  if (!active()) return;
  absl::MutexLock lock(&mutex_);
  std::erase_if(doubts_, [&](const Doubt& doubt) { return doubt.session_id == session_id; });
  Settle();
}

bool Grace::Ended(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (now >= until_ && active()) {
    for (auto& [name, holdings] : expected_) holdings->ForgetLost();
    doubts_.clear();
    Settle();
  }
  return !active() && !std::exchange(told_, true);
}

}  // namespace dafs::server
