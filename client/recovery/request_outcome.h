// Asks the server whether it executed a request of a lost session, over the new session, and
// fetches its response. Spec: 5.2.5, 6.3 (CHECK_RESPONSE, FETCH_RESPONSE); WIRE 9.4. Belongs to the
// thread of its loop.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/exchange/call.h"
#include "client/recovery/calls/wait_tracker.h"
#include "runtime/loop/task.h"
#include "wire/protocol/status.h"

namespace dafs::client {

class SessionKeeper;

enum class RequestOutcome : uint8_t {
  kAnswered,     // executed, and the call has its response
  kNotExecuted,  // and it will not be
  kForgotten,    // the server does not know
  kUnsettled,    // the server still ends the old session; it may execute the request at any time
};

// The outcome that an answer of the server means. `check_ok`: CHECK_RESPONSE found the request, and
// `answer` is that of FETCH_RESPONSE. Otherwise `answer` is that of CHECK_RESPONSE.
RequestOutcome OutcomeOf(bool check_ok, wire::DafsStatus answer);

// Asks until the outcome of `call` is settled. Waits for a session. After kAnswered `call` has the
// response as if it had just arrived. Errors: kDeadlineExceeded, kCancelled, kUnavailable (answers
// arrive damaged again and again).
Task<absl::StatusOr<RequestOutcome>> QueryOutcome(SessionKeeper& session_keeper,
                                                  WaitTracker& wait_tracker, CallBase& call,
                                                  absl::Time deadline);

}  // namespace dafs::client
