// A provider that flips one bit in a received message of its first connection, as a transport
// without its own checksum may do. The damaged message is the next one that has `message_bytes`
// bytes.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "tests/client/forwarding_provider.h"
#include "tests/wire/dat/forwarding_endpoint.h"

namespace dafs::client {

class DamagingProvider final : public ForwardingProvider {
 public:
  using ForwardingProvider::ForwardingProvider;

  size_t message_bytes = 0;  // 0: no message is damaged; set to 0 after the damage

 private:
  class Endpoint final : public dat::ForwardingEndpoint {
   public:
    Endpoint(EndpointPtr inner, DamagingProvider& provider)
        : ForwardingEndpoint(std::move(inner)), provider_(provider) {}
    absl::Status PostReceive(uint64_t cookie, dat::Segment into) override {
      receives_[cookie] = into.data;
      return inner().PostReceive(cookie, into);
    }
    size_t Poll(std::span<dat::Completion> out) override {
      const size_t count = inner().Poll(out);
      for (const dat::Completion& done : out.first(count)) {
        if (done.event != dat::Event::kReceive || !done.status.ok()) continue;
        if (done.size_bytes != provider_.message_bytes) continue;
        provider_.message_bytes = 0;
        receives_[done.cookie][done.size_bytes - 1] ^= std::byte{1};
      }
      return count;
    }

   private:
    DamagingProvider& provider_;
    std::map<uint64_t, std::byte*> receives_;
  };

  Wrapper NextWrapper() override {
    const bool first = !std::exchange(connected_, true);
    return [this, first](EndpointPtr inner) -> EndpointPtr {
      if (!first) return inner;
      return std::make_unique<Endpoint>(std::move(inner), *this);
    };
  }

  bool connected_ = false;
};

}  // namespace dafs::client
