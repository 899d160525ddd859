// Keeps one worker connected: builds its session, notices the session's end, and builds the next
// one, on another path if there is one, with growing pauses between attempts. Spec: 3.1.2.5 (a lost
// session is replaced, never repaired).
// Belongs to the thread of its loop.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/exchange/report.h"
#include "client/session/backoff.h"
#include "client/session/path_watch.h"
#include "client/session/session.h"
#include "client/session/session_history.h"
#include "client/state/client.h"
#include "client/state/server/paths.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "runtime/loop/wait_list.h"

namespace dafs::client {

class SessionKeeper {
 public:
  // `pool` null: no direct transfers. All references must outlive this. `name` is for log lines.
  // `callbacks`: as in Session::Create.
  SessionKeeper(Client& client, Loop& loop, BufferPool* pool, std::string name,
                bool callbacks = false);
  ~SessionKeeper();  // after Shutdown, outside of the loop's callbacks

  // Returns the live session, or null. Valid until the next suspension.
  Session* session() const {
    return session_ != nullptr && session_->alive() ? session_.get() : nullptr;
  }
  // Waits for a session, and starts to build one if that is not in progress. kDeadlineExceeded: the
  // message says why there is no session and for how long. kCancelled: Shutdown was called.
  // kUnauthenticated: see ClientOptions::fails_without_credentials.
  Task<absl::StatusOr<Session*>> Ready(absl::Time deadline);

  // `ready` runs when a session is established, before waiters are resumed. `lost` runs when a
  // session ended by itself, after its outstanding requests were resumed.
  void OnChange(absl::AnyInvocable<void(Session&)> ready, absl::AnyInvocable<void(Session&)> lost) {
    on_ready_ = std::move(ready);
    on_lost_ = std::move(lost);
  }

  // Tries every address and transport once. Returns the most informative error.
  Task<absl::Status> ConnectOnce();

  // Waits for `delay`. kCancelled: Shutdown was called first.
  Task<absl::Status> Pause(absl::Duration delay);

  // Sends DISCONNECT and waits at most `most`, then does what Shutdown does.
  Task<void> Disconnect(absl::Duration most);
  // Ends the session and resumes all waiters before it returns.
  void Shutdown();

  wire::CallTotals& totals() { return totals_; }
  // When the last session was lost; before the first session, when this object was made.
  absl::Time lost_at() const { return history_.lost_at(); }
  void Fill(WorkerReport& report) const;
  const std::string& name() const { return history_.name(); }

 private:
  Task<absl::Status> TryAll();
  Task<absl::Status> Try(size_t path);
  absl::Status Accept(size_t path);
  void ChangeTo(Paths::Use next);
  Task<void> Rebuild();
  void StartRebuild();
  void Lost();
  absl::Duration PauseAfterLoss();
  bool MayFailOver(bool all_refused) const;
  bool NoteRefusal(const absl::Status& status);

  Client& client_;
  Loop& loop_;
  BufferPool* pool_;
  const bool callbacks_;
  SessionHistory history_;
  std::optional<Paths::Use> use_;   // of session_, also of one in the making
  std::optional<Paths::Use> next_;  // for the session after this one, which is given up for it
  PathWatch path_watch_;
  wire::CallTotals totals_;  // outlives session_
  std::unique_ptr<Session> session_;
  absl::AnyInvocable<void(Session&)> on_ready_;
  absl::AnyInvocable<void(Session&)> on_lost_;
  absl::Status refused_;  // by the last attempt, which this side or the server has refused
  absl::Time ask_again_at_ = absl::InfinitePast();
  bool building_ = false;
  bool shut_down_ = false;
  Backoff after_quick_loss_;  // grows with each session lost right after it began
  WaitList ready_;
  WaitList pauses_;
};

}  // namespace dafs::client
