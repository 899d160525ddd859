// Procedures on locks: LOCK, LOCKT, LOCKU, OPEN_OWNER (private). Spec: 6.5.18, 6.5.19, 6.5.20; R15
// for OPEN_OWNER.
#include "server/procedures/procedures.h"
#include "server/session/session.h"

namespace dafs::server {

using wire::DafsStatus;

void Lock(Call& call) {
  wire::LockArgs args;
  if (!call.Decode(args)) return;
  wire::LockRes res;
  const DafsStatus status = call.session().store().Lock(call.caller(), args, &res);
  call.Finish(status, args, res);
}

void Lockt(Call& call) {
  wire::LocktArgs args;
  if (!call.Decode(args)) return;
  wire::LocktRes res;
  const DafsStatus status = call.session().store().Lockt(call.caller(), args, &res);
  call.Finish(status, args, res);
}

void Locku(Call& call) {
  wire::LockuArgs args;
  if (!call.Decode(args)) return;
  const DafsStatus status = call.session().store().Locku(call.caller(), args);
  call.Finish(status, args, wire::LockuRes());
}

void OpenOwner(Call& call) {
  wire::OpenOwnerArgs args;
  if (!call.Decode(args)) return;
  wire::OpenOwnerRes res;
  const DafsStatus status = call.session().store().OpenOwner(call.caller(), args, &res);
  call.Finish(status, args, res);
}

}  // namespace dafs::server
