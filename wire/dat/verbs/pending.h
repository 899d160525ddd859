// A verbs connection before its endpoint exists: the device is known, the caller chooses the
// domain. Destroying a server's refuses the connection. May move between threads. Internal.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "wire/dat/dat.h"
#include "wire/dat/verbs/connection.h"
#include "wire/dat/verbs/endpoint.h"
#include "wire/dat/verbs/verbs.h"

namespace dafs::dat::verbs {

class VerbsPendingEndpoint final : public PendingEndpoint {
 public:
  VerbsPendingEndpoint(std::unique_ptr<Connection> connection, Origin origin,
                       const VerbsOptions& options);
  ~VerbsPendingEndpoint() override;

  absl::StatusOr<std::unique_ptr<Domain>> NewDomain() override;
  bool Fits(const Domain& domain) const override;
  absl::StatusOr<std::unique_ptr<Endpoint>> CreateEndpoint(Domain& domain,
                                                           const EndpointOptions& options) override;
  std::span<const std::byte> peer_private_data() const override { return origin_.private_data; }
  const Address& peer() const override { return peer_; }

 private:
  std::unique_ptr<Connection> connection_;  // null after the endpoint was made
  Origin origin_;
  const VerbsOptions options_;
  const Address peer_;
};

}  // namespace dafs::dat::verbs
