// Keeps the server's promises for a client (client/state/promises.h): requests them over the
// control session, passes the server's announcements of changes to the observer, and ends the
// promises when the server can no longer announce changes. Also passes on which locks have become
// free (client/state/locks.h), and has delegations returned when the server recalls them, or can
// not do so any more (client/state/delegations.h). Spec: 6.5.10, 6.6.3, 6.6.4; WIRE 9.6, 9.7.
//
// Belongs to the thread of the control session's loop. Nothing blocks.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "client/session/back_control.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"
#include "client/state/client.h"
#include "client/state/promises.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "wire/messages/promises.h"
#include "wire/protocol/status.h"

namespace dafs::client {

class PromiseKeeper final : public BackControlHandler {
 public:
  // `session_keeper` is the control session's. `observer` (may be null) drops what is cached. All
  // must outlive this.
  PromiseKeeper(Client& client, Loop& loop, SessionKeeper& session_keeper,
                PromiseObserver* observer);
  ~PromiseKeeper() override;
  PromiseKeeper(const PromiseKeeper&) = delete;
  PromiseKeeper& operator=(const PromiseKeeper&) = delete;

  // Call when the control session is established, and when one was lost.
  void SessionReady(Session& session);
  void SessionLost();
  // Ends the promises, has all delegations returned, and requests no more until Resume. `ended`:
  // when nothing is cached any more that was promised.
  void Suspend(absl::AnyInvocable<void()> ended);
  void Resume();
  // The mount ends: ends the promises and requests no more.
  void Shutdown();

  // BackControlHandler: BC_CHANGED, BC_LOCK_FREE, BC_RECALL, BC_GETATTR.
  void OnChanged(std::vector<wire::Changed> changed, absl::AnyInvocable<void()> answer) override;
  void OnLockFree(const wire::FileHandle& file, uint64_t offset, uint64_t length) override;
  wire::DafsStatus OnRecall(const wire::FileHandle& file, const wire::StateId& state_id) override;
  bool HoldsWriteDelegation(const wire::FileHandle& file) override;

 private:
  // Runs functions on the loop, from any thread. Observers may keep it after the loop has ended.
  class Relay;
  class Drops;
  enum class State : uint8_t { kIdle, kDropping, kAsking };

  void Suspended();
  void Voided();
  void Renew();
  void Dropped();
  void EndPromises();
  void ReturnDelegations();
  Task<void> Purge(Session& session);
  Task<void> Ask(Session& session);
  void Refused(std::string_view why);
  void NotGranted(std::string_view why);
  void DropChanged(const wire::Changed& change, const std::shared_ptr<Drops>& drops);
  void Watch();
  void Probe();
  Task<void> SendNull(Session& session);

  Client& client_;
  Promises& promises_;
  Loop& loop_;
  SessionKeeper& session_keeper_;
  PromiseObserver* const observer_;
  const std::shared_ptr<Relay> relay_;  // shared with functions given to the observer
  State state_ = State::kIdle;
  bool again_ = false;         // the promises ended while PROMISES was outstanding
  bool nothing_kept_ = false;  // the observer has dropped all, and nothing was promised since
  bool refused_ = false;       // logged since the last grant
  bool probing_ = false;
  bool suspended_ = false;
  absl::AnyInvocable<void()> on_ended_;  // of Suspend, until then
  bool shut_down_ = false;
  bool purged_ = false;
  absl::Duration recall_;
  Loop::TimerId watch_ = 0;
};

}  // namespace dafs::client
