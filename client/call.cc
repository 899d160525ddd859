#include "client/call.h"

namespace dafs::client {

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
    case wire::Proc::kLock:
    case wire::Proc::kLocku:
    case wire::Proc::kOpenDowngrade:
    case wire::Proc::kSetFencingList:
      return false;
    // Writing the same bytes, setting the same attributes or committing again changes nothing
    // more; a second CLOSE is told by BAD_STATEID.
    default:
      return true;
  }
}

}  // namespace dafs::client
