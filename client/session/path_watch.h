// Looks after the paths of one session while it lives: tries paths that have failed, and has the
// session change to a path that works again, so that sessions are spread evenly. Only with several
// paths (client/state/server/paths.h). Belongs to the thread of its loop; nothing blocks.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "client/session/session.h"
#include "client/state/client.h"
#include "client/state/server/paths.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "wire/protocol/procedure_totals.h"

namespace dafs::client {

class PathWatch {
 public:
  // `change`: the session should change to the path of the argument. Called by a timer. `client`
  // and `loop` outlive this.
  PathWatch(Client& client, Loop& loop, absl::AnyInvocable<void(Paths::Use)> change);
  ~PathWatch();  // after Shutdown, outside of the loop's callbacks
  PathWatch(const PathWatch&) = delete;
  PathWatch& operator=(const PathWatch&) = delete;

  // The session uses `path` from now on. `may_change`: it may be replaced while it lives.
  void Begin(size_t path, bool may_change);
  void End();       // the session has ended
  void Shutdown();  // also ends a trial before it returns

 private:
  void StartTimer();
  void Look();
  Task<void> Try(Paths::Use use);

  Client& client_;
  Loop& loop_;
  absl::AnyInvocable<void(Paths::Use)> change_;
  size_t path_ = 0;
  bool may_change_ = false;
  Loop::TimerId timer_ = 0;
  bool is_shut_down_ = false;
  bool is_trying_ = false;
  wire::CallTotals totals_;         // of trials, which no report shows; outlives trial_
  std::unique_ptr<Session> trial_;  // without data
};

}  // namespace dafs::client
