#include "wire/dat/verbs/pending.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "wire/dat/verbs/domain.h"

namespace dafs::dat::verbs {

VerbsPendingEndpoint::VerbsPendingEndpoint(std::unique_ptr<Connection> connection, Origin origin,
                                           const VerbsOptions& options)
    : connection_(std::move(connection)),
      origin_(std::move(origin)),
      options_(options),
      peer_(connection_->peer()) {}

VerbsPendingEndpoint::~VerbsPendingEndpoint() {
  if (connection_ == nullptr || !origin_.is_server || !connection_->reachable()) return;
  connection_->Call([this] { return rdma_reject(connection_->id(), nullptr, 0); });
}

absl::StatusOr<std::unique_ptr<Domain>> VerbsPendingEndpoint::NewDomain() {
  if (connection_ == nullptr)
    return absl::FailedPreconditionError("new domain: after its endpoint");
  return VerbsDomain::Create(*connection_->opener(), connection_->context(),
                             connection_->id()->port_num);
}

bool VerbsPendingEndpoint::Fits(const Domain& domain) const {
  const auto* ours = dynamic_cast<const VerbsDomain*>(&domain);
  return ours != nullptr && connection_ != nullptr && ours->context() == connection_->context();
}

absl::StatusOr<std::unique_ptr<Endpoint>> VerbsPendingEndpoint::CreateEndpoint(
    Domain& domain, const EndpointOptions& options) {
  if (!Fits(domain)) {
    return absl::InvalidArgumentError(
        absl::StrCat("endpoint for ", peer_.ToString(),
                     ": the domain is of another device, or it has its endpoint"));
  }
  return VerbsEndpoint::Create(std::move(connection_), static_cast<VerbsDomain&>(domain),
                               std::move(origin_), options, options_);
}

}  // namespace dafs::dat::verbs
