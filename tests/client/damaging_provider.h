// A provider whose first connection damages a message that arrives, as a transport without a
// checksum of its own may: one bit, of the next message of a certain size.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "wire/dat/dat.h"

namespace dafs::client {

class DamagingProvider final : public dat::Provider {
 public:
  explicit DamagingProvider(dat::Provider& inner) : inner_(inner) {}

  size_t message_bytes = 0;  // 0: no message is damaged (any more)

  const char* name() const override { return inner_.name(); }
  absl::StatusOr<std::unique_ptr<dat::Listener>> Listen(const dat::Address& local) override {
    return inner_.Listen(local);
  }
  absl::StatusOr<std::unique_ptr<dat::PendingEndpoint>> Resolve(const dat::Address& peer,
                                                                const std::string& device,
                                                                absl::Duration timeout) override {
    auto pending = inner_.Resolve(peer, device, timeout);
    if (!pending.ok() || std::exchange(resolved_, true)) return pending;
    return std::make_unique<Pending>(*std::move(pending), *this);
  }

 private:
  class Endpoint final : public dat::Endpoint {
   public:
    Endpoint(std::unique_ptr<dat::Endpoint> inner, DamagingProvider& provider)
        : inner_(std::move(inner)), provider_(provider) {}
    absl::Status Connect(std::span<const std::byte> private_data) override {
      return inner_->Connect(private_data);
    }
    absl::Status Accept(std::span<const std::byte> private_data) override {
      return inner_->Accept(private_data);
    }
    absl::Status PostReceive(uint64_t cookie, dat::Segment into) override {
      receives_[cookie] = into.data;
      return inner_->PostReceive(cookie, into);
    }
    absl::Status PostSend(uint64_t cookie, std::span<const dat::Segment> from,
                          const SendOptions& options) override {
      return inner_->PostSend(cookie, from, options);
    }
    absl::Status PostRdmaWrite(uint64_t cookie, std::span<const dat::Segment> from,
                               dat::RemoteBuffer to, bool signaled) override {
      return inner_->PostRdmaWrite(cookie, from, to, signaled);
    }
    absl::Status PostRdmaRead(uint64_t cookie, std::span<const dat::Segment> into,
                              dat::RemoteBuffer from) override {
      return inner_->PostRdmaRead(cookie, into, from);
    }
    void Flush() override { inner_->Flush(); }
    size_t Poll(std::span<dat::Completion> out) override {
      const size_t count = inner_->Poll(out);
      for (const dat::Completion& done : out.first(count)) {
        if (done.event != dat::Event::kReceive || !done.status.ok()) continue;
        if (done.size_bytes != provider_.message_bytes) continue;
        provider_.message_bytes = 0;
        receives_[done.cookie][done.size_bytes - 1] ^= std::byte{1};
      }
      return count;
    }
    dat::WaitHandle Arm() override { return inner_->Arm(); }
    void Disconnect() override { inner_->Disconnect(); }
    void Abort(absl::Status why) override { inner_->Abort(std::move(why)); }
    std::span<const std::byte> peer_private_data() const override {
      return inner_->peer_private_data();
    }
    const dat::Address& peer() const override { return inner_->peer(); }
    uint32_t max_segments() const override { return inner_->max_segments(); }
    std::string description() const override { return inner_->description(); }

   private:
    std::unique_ptr<dat::Endpoint> inner_;
    DamagingProvider& provider_;
    std::map<uint64_t, std::byte*> receives_;
  };

  class Pending final : public dat::PendingEndpoint {
   public:
    Pending(std::unique_ptr<dat::PendingEndpoint> inner, DamagingProvider& provider)
        : inner_(std::move(inner)), provider_(provider) {}
    absl::StatusOr<std::unique_ptr<dat::Domain>> NewDomain() override {
      return inner_->NewDomain();
    }
    bool Fits(const dat::Domain& domain) const override { return inner_->Fits(domain); }
    absl::StatusOr<std::unique_ptr<dat::Endpoint>> CreateEndpoint(
        dat::Domain& domain, const dat::EndpointOptions& options) override {
      auto endpoint = inner_->CreateEndpoint(domain, options);
      if (!endpoint.ok()) return endpoint;
      return std::make_unique<Endpoint>(*std::move(endpoint), provider_);
    }
    std::span<const std::byte> peer_private_data() const override {
      return inner_->peer_private_data();
    }
    const dat::Address& peer() const override { return inner_->peer(); }

   private:
    std::unique_ptr<dat::PendingEndpoint> inner_;
    DamagingProvider& provider_;
  };

  dat::Provider& inner_;
  bool resolved_ = false;
};

}  // namespace dafs::client
