// Procedures on attributes: ACCESS, GETATTR, GET_FSATTR, SETATTR, VERIFY, NVERIFY (inline).
// Spec: 6.5.2, 6.5.13, 6.5.15, 6.5.23, 6.5.35, 6.5.37. They run on the worker, but
// SETATTR of the size in the pool if a lock that survives its client is concerned.
#include <optional>

#include "server/procedures/handler.h"
#include "server/store/objects/export_set.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

DafsStatus Getattr(Call& call, const wire::GetattrInlineArgs& args, wire::GetattrInlineRes* res) {
  const DafsStatus status = call.session().store().attributes().Getattr(
      call.caller(), args.filehandle, args.attr_request_bitmap, &res->obj_attributes);
  if (status != DafsStatus::kOk) return status;
  return NameOwners(call.session().shared().ids, res->obj_attributes, call.caller().promises);
}

DafsStatus GetFsattr(Call& call, const wire::GetFsattrArgs& args, wire::GetFsattrRes* res) {
  Store& store = call.session().store();
  const DafsStatus status = store.attributes().GetFsattr(
      call.caller(), args.filehandle, args.attr_request_bitmap, &res->obj_attributes);
  const wire::FsAttributes& got = res->obj_attributes;
  const ClientIdentity& identity = call.session().identity();
  if (status != DafsStatus::kOk || !got.has(wire::kFsattrFailoverLocations) || !identity.known()) {
    return status;
  }
  if (const std::optional<size_t> index = store.ExportOf(args.filehandle.fshandle)) {
    identity.client().locations().Fetched(*index, got.failover_locations,
                                          LocationsNow(store.exports()));
  }
  return status;
}

DafsStatus Setattr(Call& call, const wire::SetattrInlineArgs& args, wire::SetattrInlineRes* res) {
  return call.session().store().attributes().Setattr(call.caller(), args.filehandle, args.state_id,
                                                     args.obj_attributes,
                                                     &res->attr_request_bitmap);
}

bool SetattrMayWait(Store& store, const wire::SetattrInlineArgs& args) {
  return args.obj_attributes.has(wire::kFattrObjectSize) &&
         store.locks().ReleaseMayWait(args.filehandle);
}

DafsStatus Verify(Call& call, const wire::VerifyArgs& args, wire::VerifyRes*) {
  return call.session().store().attributes().Verify(call.caller(), args.filehandle,
                                                    args.obj_attributes);
}

DafsStatus Nverify(Call& call, const wire::NverifyArgs& args, wire::NverifyRes*) {
  return call.session().store().attributes().Nverify(call.caller(), args.filehandle,
                                                     args.obj_attributes);
}

}  // namespace

constexpr Procedure kAccessHandler = kAtOnce<&AttributeProcedures::Access>;
constexpr Procedure kGetattrInlineHandler = kReadsDelegated<Getattr>;
constexpr Procedure kGetFsattrHandler = kAtOnce<GetFsattr>;
// Waits for the disk if it cuts off bytes under an AUTORECOVERY lock.
constexpr Procedure kSetattrInlineHandler = kModifiesInPoolIf<Setattr, SetattrMayWait>;
constexpr Procedure kVerifyHandler = kAtOnce<Verify>;
constexpr Procedure kNverifyHandler = kAtOnce<Nverify>;

}  // namespace dafs::server
