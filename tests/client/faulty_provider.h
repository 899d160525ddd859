// A provider whose connections break at their n-th operation (wire/dat/faulty_endpoint.h).
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "wire/dat/faulty_endpoint.h"

namespace dafs::client {

class FaultyProvider final : public dat::Provider {
 public:
  explicit FaultyProvider(dat::Provider& inner) : inner_(inner) {}

  // Of the next `faulty` connections; those after them have no fault.
  dat::FaultPlan plan;
  int faulty = 0;
  int connections = 0;

  const char* name() const override { return inner_.name(); }
  absl::StatusOr<std::unique_ptr<dat::Listener>> Listen(const dat::Address& local) override {
    return inner_.Listen(local);
  }
  absl::StatusOr<std::unique_ptr<dat::PendingEndpoint>> Resolve(const dat::Address& peer,
                                                                const std::string& device,
                                                                absl::Duration timeout) override {
    auto pending = inner_.Resolve(peer, device, timeout);
    if (!pending.ok()) return pending;
    ++connections;
    return std::make_unique<Pending>(*std::move(pending), faulty-- > 0 ? plan : dat::FaultPlan());
  }

 private:
  class Pending final : public dat::PendingEndpoint {
   public:
    Pending(std::unique_ptr<dat::PendingEndpoint> inner, const dat::FaultPlan& plan)
        : inner_(std::move(inner)), plan_(plan) {}
    absl::StatusOr<std::unique_ptr<dat::Domain>> NewDomain() override {
      return inner_->NewDomain();
    }
    bool Fits(const dat::Domain& domain) const override { return inner_->Fits(domain); }
    absl::StatusOr<std::unique_ptr<dat::Endpoint>> CreateEndpoint(
        dat::Domain& domain, const dat::EndpointOptions& options) override {
      auto endpoint = inner_->CreateEndpoint(domain, options);
      if (!endpoint.ok()) return endpoint;
      return std::make_unique<dat::FaultyEndpoint>(*std::move(endpoint), plan_);
    }
    std::span<const std::byte> peer_private_data() const override {
      return inner_->peer_private_data();
    }
    const dat::Address& peer() const override { return inner_->peer(); }

   private:
    std::unique_ptr<dat::PendingEndpoint> inner_;
    const dat::FaultPlan plan_;
  };

  dat::Provider& inner_;
};

}  // namespace dafs::client
