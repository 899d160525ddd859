// REGISTER_CRED and RELEASE_CRED.
// Spec: 6.2.8, 6.2.9; WIRE 9.4.
#include <utility>

#include "server/procedures/handler.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

// 6.2.8.
Task<void> RegisterCred(Call& call) {
  wire::RegisterCredArgs args;
  if (!call.Decode(args)) co_return;
  wire::RegisterCredRes res;
  Session& session = call.session();
  if (!session.identity().trusted()) {
    call.Finish(DafsStatus::kNotAuthorized, args, res);
    co_return;
  }
  Credential credential;
  DafsStatus status;
  if (args.cred_type == wire::CredType::kName) {
    auto look_up = [&] {
      Store::RestoreServerIdentity();
      status = MakeCredential(args, &credential);
    };
    co_await Offload(session.pool(), session.loop(), look_up);
  } else {
    status = MakeCredential(args, &credential);
  }
  if (status == DafsStatus::kOk) {
    status =
        session.identity().client().credentials().Register(std::move(credential), &res.cred_handle);
  }
  call.Finish(status, args, res);
}

// 6.2.9.
DafsStatus ReleaseCred(Call& call, const wire::ReleaseCredArgs& args, wire::ReleaseCredRes*) {
  const ClientIdentity& identity = call.session().identity();
  if (!identity.trusted()) return DafsStatus::kNotAuthorized;
  return identity.client().credentials().Release(args.cred_handle);
}

}  // namespace

constexpr Procedure kRegisterCredHandler = {.start = RegisterCred};
constexpr Procedure kReleaseCredHandler = kAtOnce<ReleaseCred>;

}  // namespace dafs::server
