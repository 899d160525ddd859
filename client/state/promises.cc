#include "client/state/promises.h"

#include <utility>

#include "absl/hash/hash.h"
#include "wire/protocol/header.h"

namespace dafs::client {

size_t Promises::IndexOf(const wire::FileHandle& object) { return absl::HashOf(object) % kEntries; }

Promise Promises::Given(uint64_t asked, uint16_t spec_cond, uint16_t kind) {
  if ((spec_cond & kind) == 0) return {};
  return {asked, (spec_cond & wire::kSpcondOnlyClients) != 0};
}

void Promises::Heard(uint16_t spec_cond) {
  if ((spec_cond & wire::kSpcondVoid) != 0) return Void();
  if ((spec_cond & (wire::kSpcondNames | wire::kSpcondAttributes)) == 0) return;
  const bool only_clients = (spec_cond & wire::kSpcondOnlyClients) != 0;
  // The workers share it: nearly always they only read it.
  if (only_clients_.load(std::memory_order_relaxed) != only_clients) {
    only_clients_.store(only_clients, std::memory_order_relaxed);
  }
}

void Promises::Changed(const wire::FileHandle& object) {
  std::atomic<uint64_t>& changed_at = changed_at_[IndexOf(object)];
  const uint64_t now = sequence_.fetch_add(1) + 1;
  uint64_t before = changed_at.load();
  while (before < now && !changed_at.compare_exchange_weak(before, now)) {
  }
}

void Promises::ChangedAll() {
  absl::MutexLock lock(&mutex_);
  if (active()) good_since_.store(sequence_.fetch_add(1) + 1);
}

// While the server decides, nothing is cached by time: it would outlast the promises that follow.
void Promises::Ask() {
  absl::MutexLock lock(&mutex_);
  EndLocked();
  voided_ = false;
  offered_.store(true);
}

// The client may still have answers with promises that this PROMISES has ended.
bool Promises::Begin(absl::Duration recall) {
  absl::MutexLock lock(&mutex_);
  if (voided_) return false;
  answered_ = true;
  recall_ = recall;
  patience_.store(absl::ToInt64Nanoseconds(recall / 2));
  const uint64_t now = sequence_.fetch_add(1) + 1;
  begun_at_.store(now);
  good_since_.store(now);
  return true;
}

void Promises::Refuse() {
  absl::MutexLock lock(&mutex_);
  EndLocked();
  answered_ = true;
  offered_.store(false);
}

void Promises::AwaitAnswer(absl::Duration most) const {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&answered_), most);
}

void Promises::End() {
  absl::MutexLock lock(&mutex_);
  EndLocked();
}

void Promises::EndLocked() {
  begun_at_.store(kNever);
  if (good_since_.exchange(kNever) != kNever) ++counts_.voids;
}

absl::Duration Promises::recall() const {
  absl::MutexLock lock(&mutex_);
  return recall_;
}

void Promises::Void() {
  absl::MutexLock lock(&mutex_);
  EndLocked();
  if (!std::exchange(voided_, true) && on_void_) on_void_();
}

void Promises::OnVoid(absl::AnyInvocable<void()> voided) {
  absl::MutexLock lock(&mutex_);
  on_void_ = std::move(voided);
}

void Promises::NoteBreaks(uint64_t count, absl::Duration took) {
  absl::MutexLock lock(&mutex_);
  counts_.breaks.Add(took, count);
}

Promises::Caching Promises::caching() const {
  if (!active()) return Caching::kTimed;
  return only_clients_.load(std::memory_order_relaxed) ? Caching::kExact : Caching::kBounded;
}

Promises::Counts Promises::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

}  // namespace dafs::client
