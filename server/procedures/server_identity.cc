// SERVER_IDENTITY, private (R15). Spec: wire/messages/server_identity.h.
#include "server/procedures/handler.h"

namespace dafs::server {
namespace {

wire::DafsStatus ServerIdentity(Call& call, const wire::ServerIdentityArgs&,
                                wire::ServerIdentityRes* res) {
  *res = *call.session().shared().identity;
  return wire::DafsStatus::kOk;
}

}  // namespace

constexpr Procedure kServerIdentityHandler = kAtOnce<ServerIdentity>;

}  // namespace dafs::server
