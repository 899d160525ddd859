#include "client/recovery/commit_schedule.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "client/recovery/committer.h"

namespace dafs::client {

CommitSchedule::CommitSchedule(Committer& committer, Uncommitted& store, Loop& loop)
    : committer_(committer), store_(store), loop_(loop) {
  committer_.ScheduleBy(*this);
}

void CommitSchedule::Shutdown() {
  shut_down_ = true;
  loop_.Cancel(std::exchange(timer_, 0));
  by_file_.clear();
  when_empty_ = nullptr;
  const Entries ended = std::exchange(waiting_, {});
  for (const Entry& entry : ended) Ended(entry);
}

void CommitSchedule::Add(const wire::FileHandle& file, uint64_t bytes) {
  if (shut_down_) return;
  auto [it, fresh] = by_file_.try_emplace(file);
  if (fresh) it->second = waiting_.insert(waiting_.end(), {file, 0, Loop::Now()});
  it->second->bytes += bytes;
  bytes_ += bytes;
  if (timer_ == 0 || bytes_ > kMostBytes || ending_) Pump();
}

void CommitSchedule::CommitSoon() {
  if (soon_ > 0 || shut_down_) return;
  std::vector<wire::FileHandle> files = store_.Files();
  std::reverse(files.begin(), files.end());  // each goes to the front: the largest will be first
  for (const wire::FileHandle& file : files) {
    auto [it, fresh] = by_file_.try_emplace(file);
    if (fresh) {
      it->second = waiting_.insert(waiting_.begin(), {file, 0, absl::InfinitePast()});
    } else {
      waiting_.splice(waiting_.begin(), waiting_, it->second);
    }
    it->second->since = absl::InfinitePast();
    it->second->soon = true;
    ++soon_;
  }
  Pump();
}

void CommitSchedule::MakeAllDue() {
  due_ = Loop::Now();
  CommitSoon();
  Pump();
}

Task<void> CommitSchedule::CommitNow(wire::FileHandle file) {
  if (shut_down_) co_return;
  Pending<bool> done;
  waiting_.push_front({std::move(file), 0, absl::InfinitePast(), &done});
  Pump();
  co_await done;
}

void CommitSchedule::Drop(const wire::FileHandle& file) {
  auto it = by_file_.find(file);
  if (it == by_file_.end()) return;
  const Entry dropped = std::move(*it->second);
  bytes_ -= dropped.bytes;
  waiting_.erase(it->second);
  by_file_.erase(it);
  Ended(dropped);
}

// It does not wait forever: after it, entries wait only while kMostAtOnce COMMITs are
// outstanding, and each of them ends with Pump.
void CommitSchedule::CommitAll(std::function<void()> done) {
  ending_ = true;
  when_empty_ = std::move(done);
  Pump();
}

bool CommitSchedule::IsDue(const Entry& entry) const {
  return ending_ || bytes_ > kMostBytes || entry.since <= due_;
}

void CommitSchedule::Pump() {
  if (std::exchange(pumping_, true)) return;
  while (!waiting_.empty() && running_ < kMostAtOnce && IsDue(waiting_.front())) {
    Entry entry = std::move(waiting_.front());
    waiting_.pop_front();
    if (entry.done == nullptr) by_file_.erase(entry.file);
    bytes_ -= entry.bytes;
    if (!store_.NeedsCommit(entry.file)) {  // fsync has committed it, or it was removed
      Ended(entry);
      continue;
    }
    ++running_;
    Start(Commit(std::move(entry)));
  }
  pumping_ = false;
  if (timer_ == 0 && !waiting_.empty() && running_ < kMostAtOnce) SetTimer();
  if (when_empty_ != nullptr && empty()) std::exchange(when_empty_, nullptr)();
}

void CommitSchedule::SetTimer() {
  const absl::Duration left = waiting_.front().since + kCommitAfter - Loop::Now();
  timer_ = loop_.RunAfter(left, [this] {
    timer_ = 0;
    due_ = Loop::Now() - kCommitAfter + kTogether;
    Pump();
  });
}

Task<void> CommitSchedule::Commit(Entry entry) {
  // No caller waits for it, and a message of its own would cost more than the COMMIT.
  Task<absl::Status> committing = committer_.CommitInBackground(entry.file, /*can_wait=*/!ending_);
  absl::Status status = co_await committing;
  if (!status.ok() && !ending_ && !absl::IsCancelled(status) && store_.NeedsCommit(entry.file)) {
    // Counts no bytes: more than kMostBytes would be due again at once, and again. The end of the
    // mount does not wait for a retry.
    Add(entry.file, 0);
  }
  --running_;
  Ended(entry);
  Pump();
}

void CommitSchedule::Ended(const Entry& entry) {
  if (entry.soon) --soon_;
  if (entry.done != nullptr) entry.done->Set(true);
}

}  // namespace dafs::client
