#include "server/store/procedures/shared/open_request.h"

namespace dafs::server {

OpenRequest RequestOf(const Caller& caller, std::string_view owner, uint32_t access,
                      uint32_t deny) {
  OpenRequest request;
  request.client_id = caller.client_id;
  request.holdings = caller.holdings;
  request.owner = owner;
  request.access = access & wire::kShareBoth;
  request.deny = deny;
  return request;
}

OpenRequest RequestOf(const Caller& caller, const wire::OpenArgs& args) {
  OpenRequest request = RequestOf(caller, args.owner, args.share_access, args.share_deny);
  request.deny_delete = args.delete_disp == wire::OpenDeleteDisp::kDeny;
  if (args.share_key_type == wire::ShareKeyType::kBoth) request.share_key = args.share_key;
  return request;
}

Delegations::Type MostFor(const wire::OpenArgs& args) {
  const bool reserves = args.share_deny != wire::kShareDenyNone ||
                        args.share_key_type != wire::ShareKeyType::kNone ||
                        args.delete_disp != wire::OpenDeleteDisp::kDontCare;
  const bool may_get =
      args.claim_type == wire::OpenClaimType::kNull ||
      (args.claim_type == wire::OpenClaimType::kCreateUnlinked && WantsInstead(args.share_access));
  return may_get && !reserves ? Delegations::Type::kWrite : Delegations::Type::kNone;
}

}  // namespace dafs::server
