// Procedures on attributes: ACCESS, GETATTR, GET_FSATTR, SETATTR, VERIFY, NVERIFY (inline).
// Spec: 6.5.2, 6.5.13, 6.5.15, 6.5.23, 6.5.35, 6.5.37. They run on the worker, like those on names.
#include "server/procedures/procedures.h"
#include "server/session/session.h"

namespace dafs::server {

using wire::DafsStatus;

void Access(Call& call) {
  wire::AccessArgs args;
  if (!call.Decode(args)) return;
  wire::AccessRes res;
  const DafsStatus status = call.session().store().Access(call.caller(), args, &res);
  call.Finish(status, args, res);
}

void GetattrInline(Call& call) {
  wire::GetattrInlineArgs args;
  if (!call.Decode(args)) return;
  wire::GetattrInlineRes res;
  const DafsStatus status = call.session().store().Getattr(
      call.caller(), args.filehandle, args.attr_request_bitmap, &res.obj_attributes);
  call.Finish(status, args, res);
}

void GetFsattr(Call& call) {
  wire::GetFsattrArgs args;
  if (!call.Decode(args)) return;
  wire::GetFsattrRes res;
  const DafsStatus status = call.session().store().GetFsattr(
      call.caller(), args.filehandle, args.attr_request_bitmap, &res.obj_attributes);
  call.Finish(status, args, res);
}

void SetattrInline(Call& call) {
  wire::SetattrInlineArgs args;
  if (!call.Decode(args)) return;
  wire::SetattrInlineRes res;
  const DafsStatus status = call.session().store().Setattr(
      call.caller(), args.filehandle, args.state_id, args.obj_attributes, &res.attr_request_bitmap);
  call.Finish(status, args, res);
}

void Verify(Call& call) {
  wire::VerifyArgs args;
  if (!call.Decode(args)) return;
  const DafsStatus status =
      call.session().store().Verify(call.caller(), args.filehandle, args.obj_attributes);
  call.Finish(status, args, wire::VerifyRes());
}

void Nverify(Call& call) {
  wire::NverifyArgs args;
  if (!call.Decode(args)) return;
  const DafsStatus status =
      call.session().store().Nverify(call.caller(), args.filehandle, args.obj_attributes);
  call.Finish(status, args, wire::NverifyRes());
}

}  // namespace dafs::server
