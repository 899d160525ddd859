// Procedures on locks: LOCK, LOCKT, LOCKU, OPEN_OWNER (private). Spec: 6.5.18, 6.5.19, 6.5.20; R15
// for OPEN_OWNER.
#include "server/procedures/handler.h"

namespace dafs::server {

namespace {

bool LockMayWait(Store& store, const wire::LockArgs& args) {
  return store.locks().LockMayWait(args);
}

}  // namespace

constexpr Procedure kLockHandler = kModifiesInPoolIf<&LockProcedures::Lock, LockMayWait>;
constexpr Procedure kLocktHandler = kModifies<&LockProcedures::Lockt>;  // waits for delegations
constexpr Procedure kLockuHandler = kInPoolIf<&LockProcedures::Locku, ReleaseMayWait{}>;
constexpr Procedure kOpenOwnerHandler = kModifies<&LockProcedures::OpenOwner>;

}  // namespace dafs::server
