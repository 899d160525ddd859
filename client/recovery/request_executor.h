// Carries an operation to its end: waits for a session, obtains a credential, sends the chain, and
// retries what may be retried. Spec: 3.1.1.2, 3.1.2.5, 4.3.4, 5.2; WIRE 8.2, 9.2.
// Belongs to the thread of its loop; one for each worker. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/recovery/calls/operation_times.h"
#include "client/recovery/calls/wait_tracker.h"
#include "client/recovery/lost_requests.h"
#include "client/recovery/owner_lookups.h"
#include "client/recovery/registration.h"
#include "client/state/client.h"
#include "client/state/records/identity.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class CallBase;
class SessionKeeper;
class InFlightOperation;
class Reclaim;
class Session;
struct WorkerReport;

class RequestExecutor {
 public:
  // All must outlive this.
  RequestExecutor(Client& client, Loop& loop, SessionKeeper& session_keeper);
  RequestExecutor(const RequestExecutor&) = delete;
  RequestExecutor& operator=(const RequestExecutor&) = delete;
  // Call before the first Run. `reclaim` must outlive this.
  void GuardBy(Reclaim& reclaim) {
    reclaim_ = &reclaim;
    lost_.ReclaimBy(reclaim);
  }

  // Carries a chain to its end. OK: each member has its response, and those before the first
  // failure succeeded. Owners in results are numbers (client/state/file_owners.h). `user` null:
  // uses the session's own credentials. Errors: those that client/files/files.h lists for all
  // operations.
  Task<absl::Status> Run(const Identity* user, std::span<CallBase* const> chain);
  // The same. kReclaimed waits for the reclaim first. The others are for chains that are part of
  // the reclaim. With kImpatient, DELAY is a result.
  enum class Gate : uint8_t { kReclaimed, kNone, kImpatient };
  Task<absl::Status> RunGated(Gate gate, const Identity* user, std::span<CallBase* const> whole);
  // Run, then returns the status of the first failed member as an error of operation `what`. The
  // last `extra` members may fail.
  Task<absl::Status> RunAll(const Identity* user, std::span<CallBase* const> chain,
                            std::string_view what, size_t extra = 0);
  // Finds out whether the server has executed members of `chain` that a killed process has sent.
  // Those have their responses afterwards. Sends none of them, but may wait for a session.
  Task<absl::Status> FindOutcome(std::span<CallBase* const> chain);
  // The deadline of an operation that begins now.
  absl::Time DeadlineFromNow() const;
  // Implements Files::RequestCoalescing. Returns the previous value.
  bool Coalesce(bool on) { return std::exchange(coalesces_, on); }

  // Call when a session is established, when one ended, and when the mount ends.
  void SessionReady() { lost_.SessionReady(); }
  void SessionLost(const wire::SessionId& session_id) { lost_.SessionLost(session_id); }
  void Shutdown() {
    registration_.Shutdown();
    owner_lookups_.Shutdown();
  }

  void Fill(WorkerReport& report) const;
  Client& client() const { return client_; }
  Loop& loop() const { return loop_; }
  SessionKeeper& session_keeper() const { return session_keeper_; }
  WaitTracker& wait_tracker() { return wait_tracker_; }
  Reclaim& reclaim() { return *reclaim_; }
  OperationClock& operation_clock() { return operation_clock_; }
  OwnerLookups& owner_lookups() { return owner_lookups_; }

 private:
  using Chain = std::span<CallBase* const>;
  struct Attempt;
  class TimedWait;
  Session* TryPrepare(Attempt& attempt, std::span<CallBase* const> chain);
  Task<absl::Status> Prepare(Attempt& attempt, std::span<CallBase* const> chain);
  bool NameOwners(Attempt& attempt, std::span<CallBase* const> chain, uint64_t extensions);
  Task<absl::Status> NumberOwners(const Attempt& attempt, std::span<CallBase* const> chain,
                                  std::vector<OwnerQuestion> ask);
  bool AwaitsData(const Attempt& attempt, std::span<CallBase* const> chain) const;
  Task<absl::StatusOr<LostRequests::Next>> AfterLoss(Attempt& attempt,
                                                     std::span<CallBase* const> chain,
                                                     absl::Status why);
  Task<absl::StatusOr<Chain>> AfterKill(const InFlightOperation& operation, Attempt& attempt,
                                        Chain chain);
  Task<absl::StatusOr<Chain>> AfterAnswers(Attempt& attempt, Chain chain);
  Task<absl::StatusOr<bool>> AfterRefusal(Attempt& attempt, std::span<CallBase* const> chain,
                                          size_t done);
  void NoteRetry(std::span<CallBase* const> chain);
  void ForgetOpens(CallBase& call);
  void ForgetOpen(const wire::StateId& open, const wire::StateId& state_id);

  bool coalesces_ = false;
  Client& client_;
  Loop& loop_;
  SessionKeeper& session_keeper_;
  WaitTracker wait_tracker_;
  OperationClock operation_clock_;
  LostRequests lost_;
  Registration registration_;
  OwnerLookups owner_lookups_;
  Reclaim* reclaim_ = nullptr;
};

}  // namespace dafs::client
