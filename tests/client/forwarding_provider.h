// A provider that forwards to another one. A derived class can wrap the endpoints of connections,
// both those that it opens and those that it accepts.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "wire/dat/dat.h"

namespace dafs::client {

class ForwardingProvider : public dat::Provider {
 public:
  explicit ForwardingProvider(dat::Provider& inner) : inner_(inner) {}

  const char* name() const override { return inner_.name(); }
  absl::StatusOr<std::unique_ptr<dat::Listener>> Listen(const dat::Address& local) override {
    auto listener = inner_.Listen(local);
    if (!listener.ok()) return listener;
    return std::make_unique<Listener>(*std::move(listener), *this);
  }
  absl::StatusOr<std::unique_ptr<dat::PendingEndpoint>> Resolve(const dat::Address& peer,
                                                                const std::string& device,
                                                                absl::Duration timeout) override {
    auto pending = inner_.Resolve(peer, device, timeout);
    if (!pending.ok()) return pending;
    return std::make_unique<Pending>(*std::move(pending), NextWrapper());
  }

 protected:
  using EndpointPtr = std::unique_ptr<dat::Endpoint>;
  using Wrapper = std::function<EndpointPtr(EndpointPtr)>;

 private:
  // Returns the wrapper for the endpoint of a connection that this side opens now.
  virtual Wrapper NextWrapper() = 0;
  // Returns the wrapper for the endpoint of a connection that a peer opened.
  virtual Wrapper NextTakenWrapper() {
    return [](EndpointPtr endpoint) { return endpoint; };
  }

  class Pending final : public dat::PendingEndpoint {
   public:
    Pending(std::unique_ptr<dat::PendingEndpoint> inner, Wrapper wrap)
        : inner_(std::move(inner)), wrap_(std::move(wrap)) {}
    absl::StatusOr<std::unique_ptr<dat::Domain>> NewDomain() override {
      return inner_->NewDomain();
    }
    bool Fits(const dat::Domain& domain) const override { return inner_->Fits(domain); }
    absl::StatusOr<EndpointPtr> CreateEndpoint(dat::Domain& domain,
                                               const dat::EndpointOptions& options) override {
      auto endpoint = inner_->CreateEndpoint(domain, options);
      if (!endpoint.ok()) return endpoint;
      return wrap_(*std::move(endpoint));
    }
    std::span<const std::byte> peer_private_data() const override {
      return inner_->peer_private_data();
    }
    const dat::Address& peer() const override { return inner_->peer(); }

   private:
    std::unique_ptr<dat::PendingEndpoint> inner_;
    const Wrapper wrap_;
  };

  class Listener final : public dat::Listener {
   public:
    Listener(std::unique_ptr<dat::Listener> inner, ForwardingProvider& provider)
        : inner_(std::move(inner)), provider_(provider) {}
    absl::StatusOr<std::unique_ptr<dat::PendingEndpoint>> Next() override {
      auto pending = inner_->Next();
      if (!pending.ok() || *pending == nullptr) return pending;
      return std::make_unique<Pending>(*std::move(pending), provider_.NextTakenWrapper());
    }
    WaitHandle Arm() override { return inner_->Arm(); }
    const dat::Address& local() const override { return inner_->local(); }

   private:
    std::unique_ptr<dat::Listener> inner_;
    ForwardingProvider& provider_;
  };

  dat::Provider& inner_;
};

}  // namespace dafs::client
