#include "client/call.h"

namespace dafs::client {

bool NameOpen(CallBase& call, const Opens& opens, const wire::ClientId& client_id) {
  wire::StateId* argument = call.state_id_argument();
  if (argument == nullptr) return true;
  if (!call.open.has_value()) {
    if (argument->is_zero()) return true;
    call.open = *argument;
  }
  std::optional<wire::StateId> state_id = opens.StateIdOf(*call.open, client_id);
  if (!state_id.has_value()) return false;
  *argument = *state_id;
  return true;
}

bool IsIdempotent(wire::Proc proc) {
  switch (proc) {
    // What makes, removes or moves names answers something else the second time; an append
    // happens twice.
    case wire::Proc::kAppendInline:
    case wire::Proc::kAppendDirect:
    case wire::Proc::kCreate:
    case wire::Proc::kLink:
    case wire::Proc::kRemove:
    case wire::Proc::kRename:
    case wire::Proc::kBatchSubmit:
    case wire::Proc::kOpenDowngrade:
    case wire::Proc::kSetFencingList:
      return false;
    // Writing the same bytes, setting the same attributes, committing or locking again for the same
    // owner changes nothing more; a second CLOSE is told by BAD_STATEID.
    default:
      return true;
  }
}

}  // namespace dafs::client
