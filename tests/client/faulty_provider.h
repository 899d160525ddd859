// A provider whose connections break at their n-th operation (tests/wire/dat/faulty_endpoint.h).
#pragma once

#include <memory>
#include <utility>

#include "tests/client/forwarding_provider.h"
#include "tests/wire/dat/faulty_endpoint.h"

namespace dafs::client {

class FaultyProvider final : public ForwardingProvider {
 public:
  using ForwardingProvider::ForwardingProvider;

  // The fault of the next `faulty` connections. Later connections have no fault.
  dat::FaultPlan plan;
  int faulty = 0;
  int connections = 0;

 private:
  Wrapper NextWrapper() override {
    ++connections;
    return [next = faulty-- > 0 ? plan : dat::FaultPlan()](EndpointPtr inner) {
      return std::make_unique<dat::FaultyEndpoint>(std::move(inner), next);
    };
  }
};

}  // namespace dafs::client
