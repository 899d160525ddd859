#include "fuse/files/commit_queue.h"

#include <string>
#include <utility>

#include "client/recovery/committer.h"
#include "runtime/log.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

// Whether a COMMIT failed because the data did not reach the disk. After any other error nothing is
// lost: the server could not commit just now, and the data is still uncommitted.
bool IsLoss(const absl::Status& status) {
  if (!wire::HasDafsStatus(status)) return false;
  switch (wire::DafsFromStatus(status)) {
    case wire::DafsStatus::kIo:
    case wire::DafsStatus::kNoSpc:
    case wire::DafsStatus::kDquot:
      return true;
    default:
      return false;
  }
}

}  // namespace

CommitQueue::~CommitQueue() {
  files_.loop().Cancel(timer_);
  for (Entry& entry : waiting_) {
    if (entry.done != nullptr) entry.done->Set(true);
  }
}

void CommitQueue::Add(const std::shared_ptr<OpenState>& open, uint64_t bytes) {
  if (!open->writes->uncommitted()) return;
  auto [it, fresh] = by_file_.try_emplace(open->writes.get());
  if (fresh) it->second = waiting_.insert(waiting_.end(), {open, 0, dat::Loop::Now()});
  it->second->bytes += bytes;
  bytes_ += bytes;
  if (timer_ == 0 || bytes_ > kMostBytes || ending_) Pump();
}

dat::Task<void> CommitQueue::CommitNow(std::shared_ptr<OpenState> open) {
  dat::Pending<bool> done;
  waiting_.push_front({std::move(open), 0, absl::InfinitePast(), &done});
  Pump();
  co_await done;
}

void CommitQueue::CommitAll(std::function<void()> done) {
  ending_ = true;
  when_empty_ = std::move(done);
  Pump();
}

void CommitQueue::DropIfRemoved(const wire::FileHandle& file,
                                std::shared_ptr<client::WriteTracker> writes) {
  if (ending_) return;
  forgotten_.push_back({file, std::move(writes)});
  if (asking_ == kMostAtOnce) return;
  ++asking_;
  dat::Start(AskForRemoved());
}

dat::Task<void> CommitQueue::AskForRemoved() {
  while (!forgotten_.empty() && !ending_) {
    const Forgotten next = std::move(forgotten_.front());
    forgotten_.pop_front();
    if (!next.writes->uncommitted()) continue;
    dat::Task<bool> asking = files_.commits().DropIfRemoved(next.file);
    if (!(co_await asking)) continue;
    next.writes->Forget();
    Drop(next.writes.get());
  }
  --asking_;
}

// Removes a file from the queue because it no longer needs a COMMIT. The queue of another worker
// skips such a file when its turn comes. CommitAll does not wait forever: after it, entries wait
// only while kMostAtOnce COMMITs are outstanding, and each of them ends with Pump.
void CommitQueue::Drop(const client::WriteTracker* writes) {
  auto it = by_file_.find(writes);
  if (it == by_file_.end()) return;
  bytes_ -= it->second->bytes;
  waiting_.erase(it->second);
  by_file_.erase(it);
}

bool CommitQueue::IsDue(const Entry& entry) const {
  return ending_ || bytes_ > kMostBytes || entry.since <= due_;
}

void CommitQueue::Pump() {
  if (std::exchange(pumping_, true)) return;
  while (!waiting_.empty() && running_ < kMostAtOnce && IsDue(waiting_.front())) {
    Entry entry = std::move(waiting_.front());
    waiting_.pop_front();
    if (entry.done == nullptr) by_file_.erase(entry.open->writes.get());
    bytes_ -= entry.bytes;
    if (!entry.open->writes->uncommitted()) {  // fsync has committed it
      if (entry.done != nullptr) entry.done->Set(true);
      continue;
    }
    ++running_;
    dat::Start(Commit(std::move(entry)));
  }
  pumping_ = false;
  if (timer_ == 0 && !waiting_.empty() && running_ < kMostAtOnce) {
    timer_ =
        files_.loop().RunAfter(waiting_.front().since + kCommitAfter - dat::Loop::Now(), [this] {
          timer_ = 0;
          due_ = dat::Loop::Now() - kCommitAfter + kTogether;
          Pump();
        });
  }
  if (when_empty_ != nullptr && empty()) std::exchange(when_empty_, nullptr)();
}

dat::Task<absl::Status> CommitQueue::CommitFile(std::shared_ptr<OpenState> open, bool can_wait) {
  client::WriteTracker& writes = *open->writes;
  client::WriteTracker::Mark mark = writes.BeforeCommit();
  absl::StatusOr<wire::Verifier> verifier =
      co_await files_.commits().Commit(*open->opener, open->handle, 0, 0, can_wait);
  absl::Status status = writes.AfterCommit(mark, verifier);
  const absl::Status lost = files_.commits().TakeFailure(open->handle);
  if (!lost.ok()) {  // already logged where it was abandoned
    writes.NoteFailure(lost);
    // A refusal by the server is the reason why the data was abandoned.
    co_return wire::HasDafsStatus(status) ? absl::OkStatus() : status;
  }
  if (!IsLoss(status)) co_return status;
  if (!writes.doubtful()) {  // no fsync or close may follow
    LogError(files_.client().options().server_name +
             ": data that was written to a file may be lost: " + std::string(status.message()) +
             "; the next fsync or close of the file fails");
  }
  writes.NoteFailure(status);
  co_return absl::OkStatus();
}

dat::Task<void> CommitQueue::Commit(Entry entry) {
  // No caller waits for it, and a message of its own would cost more than the COMMIT.
  dat::Task<absl::Status> committing = CommitFile(entry.open, /*can_wait=*/!ending_);
  absl::Status status = co_await committing;
  if (client::IsGone(status)) {
    entry.open->writes->Forget();
  } else if (!status.ok() && !ending_ && !absl::IsCancelled(status)) {
    Add(entry.open, entry.bytes);  // the end of the mount does not wait for a retry
  }
  --running_;
  if (entry.done != nullptr) entry.done->Set(true);
  Pump();
}

}  // namespace dafs::fuse
