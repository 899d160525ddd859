// GET_FENCING_LIST and SET_FENCING_LIST. Spec: 4.4.4, 6.4; WIRE 9.4, R73 to R76, R83.
#include "server/store/fencing/fencing.h"

#include <span>
#include <string>

#include "server/procedures/handler.h"
#include "server/session/own_pool.h"
#include "server/session/shared/pool.h"
#include "server/store/procedures/fencing_procedures.h"
#include "wire/messages/fencing.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

Trust TrustOf(Session& session) {
  return session.identity().trusted() ? Trust::kTrusted : Trust::kNone;
}

// The pool on which the file system of `filehandle` may be accessed, and the disk awaited.
Pool& PoolOf(Session& session, const wire::FileHandle& filehandle) {
  const Shared& shared = session.shared();
  return PoolFor(shared, OwnPool(shared, filehandle.fshandle));
}

Task<void> GetFencingList(Call& call) {
  wire::GetFencingListArgs args;
  if (!call.Decode(args)) co_return;
  Session& session = call.session();
  wire::GetFencingListRes res;
  DafsStatus status = DafsStatus::kServerFault;
  auto get = [&] {
    status =
        session.store().fencing_lists().GetFencingList(call.caller(), TrustOf(session), args, &res);
  };
  co_await Offload(PoolOf(session, args.filehandle), session.loop(), get);
  call.Finish(status, args, res);
}

// Waits until every access to files has ended that sessions with one of `ids` have begun.
Task<void> Drain(Session& session, std::span<const std::string> ids) {
  Pending<bool> drained;
  Loop& loop = session.loop();
  session.store().fencing().sessions().Drain(
      ids, [&drained, &loop] { loop.Post([&drained] { drained.Set(true); }); });
  co_await drained;
}

// With DENY, answered only when nothing of the denied sessions is executed any more (4.4.4.4).
Task<void> SetFencingList(Call& call) {
  wire::SetFencingListArgs args;
  if (!call.Decode(args)) co_return;
  Session& session = call.session();
  Pool& pool = PoolOf(session, args.filehandle);
  DafsStatus status = DafsStatus::kServerFault;
  auto set = [&] {
    status = session.store().fencing_lists().SetFencingList(call.caller(), TrustOf(session), args);
  };
  co_await Offload(pool, session.loop(), set);
  if (status == DafsStatus::kOk && args.access == wire::FenceAccess::kDeny) {
    Task<void> draining = Drain(session, args.fence_list);
    co_await draining;
  }
  if (status == DafsStatus::kOk) {
    auto end = [&] { session.store().fencing_lists().EndFenced(args.filehandle, args.object); };
    co_await Offload(pool, session.loop(), end);
  }
  call.Finish(status, args, wire::SetFencingListRes());
}

}  // namespace

constexpr Procedure kGetFencingListHandler = {.start = GetFencingList};
constexpr Procedure kSetFencingListHandler = {.start = SetFencingList};

}  // namespace dafs::server
