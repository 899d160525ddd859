#include "client/session/path_watch.h"

#include <utility>

#include "runtime/check.h"

namespace dafs::client {

PathWatch::PathWatch(Client& client, Loop& loop, absl::AnyInvocable<void(Paths::Use)> change)
    : client_(client), loop_(loop), change_(std::move(change)) {}

PathWatch::~PathWatch() {
  Shutdown();
  DAFS_CHECK(!is_trying_, "Shutdown left a trial of a path");
}

void PathWatch::Begin(size_t path, bool may_change) {
  path_ = path;
  may_change_ = may_change;
  if (client_.paths().several()) StartTimer();
}

void PathWatch::End() { loop_.Cancel(std::exchange(timer_, 0)); }

void PathWatch::Shutdown() {
  if (std::exchange(is_shut_down_, true)) return;
  End();
  if (trial_ != nullptr) trial_->Kill(absl::CancelledError("the mount ends"));
}

void PathWatch::StartTimer() {
  End();
  if (is_shut_down_) return;
  timer_ = loop_.RunAfter(client_.options().path_retry / 5, [this] {
    timer_ = 0;
    Look();
  });
}

void PathWatch::Look() {
  StartTimer();
  if (is_trying_) return;
  trial_.reset();
  if (std::optional<Paths::Use> due = client_.paths().DueProbe(path_, Loop::Now())) {
    is_trying_ = true;
    Start(Try(*std::move(due)));
    return;
  }
  if (!may_change_) return;
  if (std::optional<Paths::Use> better = client_.paths().Better(path_)) {
    change_(*std::move(better));
  }
}

// Only a session shows that the server answers, and which one it is. The next Look destroys it,
// since this may run within its Poll.
Task<void> PathWatch::Try(Paths::Use use) {
  Paths& paths = client_.paths();
  const size_t path = use.path();
  auto made =
      Session::Create(client_, loop_, paths.provider(path), paths.address(path), nullptr, totals_);
  if (made.ok()) {
    trial_ = *std::move(made);
    const absl::Time deadline = Loop::Now() + client_.options().connect_timeout;
    Task<absl::Status> establishing = trial_->Establish(deadline);
    if ((co_await establishing).ok()) {
      // Logs it if that is another server.
      const absl::Status ignored = paths.Reached(path, trial_->negotiated().identity);
      Task<void> closing = trial_->Disconnect(deadline);
      co_await closing;
    }
  }
  is_trying_ = false;
}

}  // namespace dafs::client
