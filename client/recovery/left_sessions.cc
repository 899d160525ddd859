#include "client/recovery/left_sessions.h"

#include <cstdint>
#include <limits>
#include <optional>

#include "absl/time/time.h"
#include "client/exchange/call.h"
#include "client/recovery/calls/retry_pause.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"
#include "client/state/client.h"
#include "client/state/records/session_records.h"
#include "runtime/status_macros.h"

namespace dafs::client {

using wire::DafsStatus;

Task<absl::Status> EndLeftSessions(Client& client, SessionKeeper& session_keeper,
                                   WaitTracker& wait_tracker) {
  RetryPause pause(session_keeper, wait_tracker);
  while (const std::optional<SessionRecords::Session> left = client.sessions().FindLeft()) {
    Session* const session = session_keeper.session();
    if (session == nullptr) co_return absl::UnavailableError("the session was lost");
    // FETCH_RESPONSE of a stream that no session has. CHECK_RESPONSE would show the server that
    // this client has asked about what a restart has interrupted, so that it no longer keeps other
    // clients away from these files.
    Call<wire::FetchResponseArgs> fetch;
    fetch.args.session_id = left->session_id;
    fetch.args.xid_stream = std::numeric_limits<uint16_t>::max();
    fetch.args.procedure = static_cast<uint32_t>(wire::Proc::kNull);
    CallBase* const chain[] = {&fetch};
    Task<absl::Status> task = session->Run(wire::CredHandle(), chain, absl::InfiniteFuture());
    CO_RETURN_IF_ERROR(co_await task);
    // BAD_SESSION: requests of that session are still executed. With another authentication method
    // it is that of another client; the server was restarted then, and executes none of them.
    if (fetch.status != DafsStatus::kBadSession || fetch.xid.auth != left->auth) {
      client.sessions().Ended(left->session_id);
      continue;
    }
    Task<absl::Status> waiting =
        pause.Wait("the server still executes requests of the killed mount.dafs");
    CO_RETURN_IF_ERROR(co_await waiting);
  }
  co_return absl::OkStatus();
}

}  // namespace dafs::client
