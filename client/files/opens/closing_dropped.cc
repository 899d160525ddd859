// Opens of operations that a killed process had begun and nothing carries out again.
#include <string>

#include "client/exchange/in_flight.h"
#include "client/files/opens/open_call.h"
#include "client/files/opens/opening.h"

namespace dafs::client {

// The server may have opened a file, and the killed process not have received the response.
template <class Args>
Task<void> OpenOperations::CloseSent(InFlightOperation& dropped, const std::string& owner) {
  const Identity user;  // the record has no other; CLOSE is permitted by the state id
  for (;;) {
    OpenCall<Args> open(client_, user);
    open.args.owner = owner;
    if (!dropped.TakeSent(open)) co_return;
    CallBase* const chain[] = {&open};
    if (!open.answered) {
      Task<absl::Status> asking = executor_.FindOutcome(chain);
      const absl::Status ignored = co_await asking;
    }
    if (!open.ok()) continue;  // it has opened nothing, or its outcome is not known
    Task<absl::Status> closing = Close(open.res.state_id);
    const absl::Status ignored = co_await closing;
  }
}

Task<void> OpenOperations::CloseDropped(InFlightOperation& dropped, std::string owner) {
  Task<void> named = CloseSent<wire::OpenArgs>(dropped, owner);
  co_await named;
  Task<void> by_handle = CloseSent<wire::OpenHandleArgs>(dropped, owner);
  co_await by_handle;
  Task<void> delegated = CloseSent<wire::OpenDelegatedArgs>(dropped, owner);
  co_await delegated;
  Task<void> executed = CloseSent<wire::OpenExecuteArgs>(dropped, owner);
  co_await executed;
}

}  // namespace dafs::client
