// Procedures on opens and delegations: OPEN, CLOSE, OPEN_DOWNGRADE, DELEGPURGE, DELEGRETURN, and
// the private OPEN_HANDLE, OPEN_DELEGATED and OPEN_EXECUTE.
// Spec: 6.5.7, 6.5.10, 6.5.11, 6.5.24, 6.5.26; R15 for the private ones.
#include "server/procedures/handler.h"
#include "server/session/own_pool.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

// An open that truncates may free gigabytes of blocks, so it waits in the pool.
Task<void> Open(Call& call) {
  wire::OpenArgs args;
  if (!call.Decode(args)) co_return;
  wire::OpenRes res;
  DafsStatus status = DafsStatus::kServerFault;
  Session& session = call.session();
  const bool truncates =
      args.open_type == wire::OpenType::kCreate && args.createattrs.has(wire::kFattrObjectSize);
  // A reclaim names the file, not a directory.
  Pool* own = call.may_hang() ? &call.pool() : nullptr;
  if (args.claim_type == wire::OpenClaimType::kPrevious) {
    own = OwnPool(session.shared(), args.claim_handle().fshandle);
  }
  Modification& modification = call.BeginModification();
  if (truncates || own != nullptr) call.NotInTurn();
  auto open = [&] {
    const FencedSession::Access access(call.caller().fence);
    res = {};
    status = session.store().opens().Open(call.caller(), args, &res);
  };
  const bool may_wait = truncates || own != nullptr;
  Pool& pool = PoolFor(session.shared(), own);
  co_await OffloadIf(may_wait, pool, session.loop(), open);
  if (modification.MustCall(status)) {
    Task<void> repeating =
        internal::CallAndRepeat(call, modification, may_wait, pool, &status, open);
    co_await repeating;
  }
  call.Finish(status, args, res);
}

}  // namespace

constexpr Procedure kOpenHandler = {.start = Open};
constexpr Procedure kOpenHandleHandler = kModifies<&OpenProcedures::OpenHandle>;
constexpr Procedure kOpenDelegatedHandler = kModifies<&OpenProcedures::OpenDelegated>;
constexpr Procedure kOpenExecuteHandler = kModifies<&OpenProcedures::OpenExecute>;
constexpr Procedure kDelegpurgeHandler = kAtOnce<&OpenProcedures::Delegpurge>;
constexpr Procedure kDelegreturnHandler = kAtOnce<&OpenProcedures::Delegreturn>;
// Modifies a named attribute.
constexpr Procedure kCloseHandler = kModifiesInPoolIf<&OpenProcedures::Close, ReleaseMayWait{}>;
constexpr Procedure kOpenDowngradeHandler = kAtOnce<&OpenProcedures::OpenDowngrade>;

}  // namespace dafs::server
