// The session of one worker, whichever it is just now: builds it, notices its end, and builds
// another with growing pauses. Spec: 3.1.2.5 (a lost session is replaced, never repaired).
// Belongs to the thread of its loop.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/session/report.h"
#include "client/session/session.h"
#include "client/state/client.h"
#include "runtime/loop.h"
#include "runtime/task.h"
#include "runtime/wait_list.h"

namespace dafs::client {

class Connection {
 public:
  // `pool` may be null: no direct transfers. All outlive it. `name` is for log lines.
  Connection(Client& client, dat::Loop& loop, BufferPool* pool, std::string name);
  ~Connection();  // after Shutdown, outside of the loop's callbacks

  // The session, if there is one that lives. Good until the next suspension.
  Session* session() const {
    return session_ != nullptr && session_->alive() ? session_.get() : nullptr;
  }
  // Waits for a session; builds one in the background if nobody does. kDeadlineExceeded says why
  // there is none and since when; kCancelled: Shutdown.
  dat::Task<absl::StatusOr<Session*>> Ready(absl::Time deadline);

  // `ready` runs when there is a new session, before those that wait for it are resumed; `lost`
  // when one has died by itself, after all that was out on it was resumed.
  void OnChange(absl::AnyInvocable<void(Session&)> ready, absl::AnyInvocable<void(Session&)> lost) {
    on_ready_ = std::move(ready);
    on_lost_ = std::move(lost);
  }

  // One try with every address and transport; what the most telling one said.
  dat::Task<absl::Status> ConnectOnce();

  // `delay` later. kCancelled: Shutdown came first.
  dat::Task<absl::Status> Pause(absl::Duration delay);

  // DISCONNECT within `most`, then as Shutdown.
  dat::Task<void> Disconnect(absl::Duration most);
  // Ends the session and everything that waits here, before it returns.
  void Shutdown();

  CallTotals& totals() { return totals_; }
  // When the last session was lost. Without one yet: when this was made.
  absl::Time lost_at() const { return lost_at_; }
  void Fill(WorkerReport& report) const;
  const std::string& name() const { return name_; }

 private:
  dat::Task<absl::Status> TryAll();
  dat::Task<absl::Status> Try(dat::Provider& provider, const dat::Address& address);
  dat::Task<void> Rebuild();
  void StartRebuild();
  void Lost();
  absl::Duration Growing(absl::Duration& pause);
  absl::Duration PauseAfterLoss();
  void SayConnected(int attempts);

  Client& client_;
  dat::Loop& loop_;
  BufferPool* pool_;
  std::string name_;
  CallTotals totals_;  // outlives session_
  std::unique_ptr<Session> session_;
  absl::AnyInvocable<void(Session&)> on_ready_;
  absl::AnyInvocable<void(Session&)> on_lost_;
  bool building_ = false;
  bool shut_down_ = false;
  absl::Status not_connected_;  // why there is no session
  std::string passed_over_;     // why what was tried before session_ did not serve
  absl::Time lost_at_;
  absl::Time connected_at_;
  absl::Duration quick_loss_pause_;  // grows with each session that was lost as soon as it was made
  uint64_t connects_ = 0;
  WaitList ready_;
  WaitList pauses_;
  std::minstd_rand random_;
};

}  // namespace dafs::client
