// The private procedures on ranges of a file: ALLOCATE, SEEK, COPY_RANGE (wire/messages/ranges.h).
// Each of them may wait for the disk.
#include "server/procedures/procedures.h"
#include "server/session/pool.h"
#include "server/session/session.h"

namespace dafs::server {

using wire::DafsStatus;

dat::Task<void> Allocate(Call& call) {
  wire::AllocateArgs args;
  if (!call.Decode(args)) co_return;
  Session& session = call.session();
  DafsStatus status = DafsStatus::kServerFault;
  auto allocate = [&] { status = session.store().Allocate(call.caller(), args); };
  co_await Offload(call.pool(), session.loop(), allocate);
  call.Finish(status, args, wire::AllocateRes());
}

dat::Task<void> Seek(Call& call) {
  wire::SeekArgs args;
  if (!call.Decode(args)) co_return;
  Session& session = call.session();
  wire::SeekRes res;
  DafsStatus status = DafsStatus::kServerFault;
  auto seek = [&] { status = session.store().Seek(call.caller(), args, &res); };
  co_await Offload(call.pool(), session.loop(), seek);
  call.Finish(status, args, res);
}

dat::Task<void> CopyRange(Call& call) {
  wire::CopyRangeArgs args;
  if (!call.Decode(args)) co_return;
  Session& session = call.session();
  wire::CopyRangeRes res;
  DafsStatus status = DafsStatus::kServerFault;
  auto copy = [&] { status = session.store().CopyRange(call.caller(), args, &res); };
  co_await Offload(call.pool(), session.loop(), copy);
  call.Finish(status, args, res);
}

}  // namespace dafs::server
