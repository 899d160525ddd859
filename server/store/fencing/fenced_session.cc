#include "server/store/fencing/fenced_session.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "runtime/check.h"

namespace dafs::server {

FencedSession::FencedSession(FencedSessions& sessions, const wire::ClientId& client_id,
                             std::string id)
    : sessions_(sessions), client_id_(client_id), id_(std::move(id)) {
  absl::MutexLock lock(&sessions_.mutex_);
  sessions_.all_.push_back(this);
}

FencedSession::~FencedSession() {
  {
    absl::MutexLock lock(&sessions_.mutex_);
    std::erase(sessions_.all_, this);
  }
  absl::MutexLock lock(&mutex_);
  DAFS_CHECK(oldest_ == nullptr, "an access outlives its session");
}

void FencedSession::Begin(Access& access) {
  absl::MutexLock lock(&mutex_);
  access.number_ = next_number_++;
  access.previous_ = newest_;
  (newest_ != nullptr ? newest_->next_ : oldest_) = &access;
  newest_ = &access;
}

void FencedSession::End(Access& access) {
  std::vector<Waiter> over;
  {
    absl::MutexLock lock(&mutex_);
    (access.previous_ != nullptr ? access.previous_->next_ : oldest_) = access.next_;
    (access.next_ != nullptr ? access.next_->previous_ : newest_) = access.previous_;
    if (waiters_.empty()) return;
    const auto waits = [this](const Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return oldest_ != nullptr && oldest_->number_ < waiter.before;
    };
    const auto first_over = std::partition(waiters_.begin(), waiters_.end(), waits);
    std::move(first_over, waiters_.end(), std::back_inserter(over));
    waiters_.erase(first_over, waiters_.end());
  }
  for (Waiter& waiter : over) waiter.done();
}

void FencedSession::AwaitEnd(absl::AnyInvocable<void()> done) {
  {
    absl::MutexLock lock(&mutex_);
    if (oldest_ != nullptr) {
      waiters_.push_back({next_number_, std::move(done)});
      return;
    }
  }
  done();
}

std::vector<std::string> FencedSessions::IdsOf(const wire::ClientId& client_id) {
  std::vector<std::string> ids;
  absl::MutexLock lock(&mutex_);
  for (const FencedSession* session : all_) {
    if (session->client_id() == client_id) ids.push_back(session->id());
  }
  return ids;
}

void FencedSessions::Drain(std::span<const std::string> ids, absl::AnyInvocable<void()> done) {
  // Shared by the sessions that are drained; the last of them calls `done`.
  struct Group {
    explicit Group(absl::AnyInvocable<void()> of_all) : done(std::move(of_all)) {}
    std::atomic<size_t> left{1};  // one for this function; orders the accesses before `done`
    absl::AnyInvocable<void()> done;

    void EndOne() {
      if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) done();
    }
  };
  auto group = std::make_shared<Group>(std::move(done));
  {
    absl::MutexLock lock(&mutex_);
    for (FencedSession* session : all_) {
      if (std::find(ids.begin(), ids.end(), session->id()) == ids.end()) continue;
      group->left.fetch_add(1, std::memory_order_relaxed);
      session->AwaitEnd([group] { group->EndOne(); });
    }
  }
  group->EndOne();
}

}  // namespace dafs::server
