// Finds out which members of a chain the server executed before their session was lost, and what
// the chain does next. The old session's Response Cache has the responses (request_outcome.h).
// Spec: 5.2.5 (use of the Response Cache), 4.3.4 (chains).
// Belongs to the thread of its loop; one for each worker.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/exchange/call.h"
#include "client/recovery/calls/wait_tracker.h"
#include "client/recovery/request_outcome.h"
#include "client/recovery/response_caches.h"
#include "client/state/client.h"
#include "runtime/loop/task.h"

namespace dafs::client {

class SessionKeeper;
class Reclaim;

class LostRequests {
 public:
  // All must outlive this.
  LostRequests(Client& client, SessionKeeper& session_keeper, WaitTracker& wait_tracker)
      : client_(client),
        session_keeper_(session_keeper),
        wait_tracker_(wait_tracker),
        caches_(client, session_keeper) {}

  // Sets the object that reclaims the opens found in a cache. It must outlive this. Call before
  // the first Resolve.
  void ReclaimBy(Reclaim& reclaim) { reclaim_ = &reclaim; }

  // The next step of the caller after Resolve.
  enum class Next : uint8_t {
    kRest,   // issue the members without a response, or use the response of the last member
    kWhole,  // issue the whole chain again (4.3.1: its reads were between locks that were released)
  };

  // Finds out whether the members of `chain` that were sent and not answered were executed. `why`
  // is the error that ended their session. Afterwards each executed member has its response. A
  // member without one was not executed, or may be executed again.
  // Reclaims an OPEN that was executed before a restart of the server. No request may use its file
  // before that, and the server expects the reclaim until the old session's cache is discarded.
  // Waits for a session. kUnknown: the server does not know whether it executed a member that must
  // not be executed twice. Other errors: kDeadlineExceeded, kCancelled.
  Task<absl::StatusOr<Next>> Resolve(std::span<CallBase* const> chain, absl::Status why,
                                     absl::Time deadline);

  // Call after a session ended and its outstanding requests were resumed.
  void SessionLost(const wire::SessionId& session_id) { caches_.SessionLost(session_id); }
  // Call when a session is established.
  void SessionReady() { caches_.SessionReady(); }

  // Count of members found in a Response Cache, and of members issued again.
  uint64_t fetched() const { return fetched_; }
  uint64_t reissued() const { return reissued_; }

 private:
  Task<absl::StatusOr<Next>> ResolveClaimed(std::span<CallBase* const> chain, absl::Status why,
                                            absl::Time deadline);
  Task<absl::StatusOr<RequestOutcome>> Ask(CallBase& call, absl::Time deadline);
  Task<absl::StatusOr<bool>> AnyExecuted(std::span<CallBase* const> chain, absl::Time deadline);
  Task<absl::Status> ReclaimFound(std::span<CallBase* const> chain, absl::Time deadline);

  Client& client_;
  SessionKeeper& session_keeper_;
  WaitTracker& wait_tracker_;
  Reclaim* reclaim_ = nullptr;
  ResponseCaches caches_;
  uint64_t fetched_ = 0;
  uint64_t reissued_ = 0;
};

}  // namespace dafs::client
