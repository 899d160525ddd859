// Procedures on locks: LOCK, LOCKT, LOCKU, OPEN_OWNER (private). Spec: 6.5.18, 6.5.19, 6.5.20; R15
// for OPEN_OWNER.
#include "server/procedures/handler.h"

namespace dafs::server {

constexpr Procedure kLockHandler = kModifies<&LockProcedures::Lock>;
constexpr Procedure kLocktHandler = kModifies<&LockProcedures::Lockt>;  // waits for delegations
constexpr Procedure kLockuHandler = kAtOnce<&LockProcedures::Locku>;
constexpr Procedure kOpenOwnerHandler = kModifies<&LockProcedures::OpenOwner>;

}  // namespace dafs::server
