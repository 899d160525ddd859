// A provider that holds back the server's replies while `hold` is set, and counts what is sent. A
// test can also block the worker's thread, by holding `stopped`.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "tests/client/forwarding_provider.h"
#include "tests/wire/dat/forwarding_endpoint.h"

namespace dafs::fuse {

class HoldingProvider final : public client::ForwardingProvider {
 public:
  using ForwardingProvider::ForwardingProvider;

  std::atomic<bool> hold{false};
  std::atomic<uint64_t> sent{0};    // messages posted
  std::atomic<uint64_t> pieces{0};  // sends: adjacent messages share one
  absl::Mutex stopped;              // while a test holds it, the worker's poll blocks

 private:
  class HoldingEndpoint final : public dat::ForwardingEndpoint {
   public:
    HoldingEndpoint(std::unique_ptr<dat::Endpoint> inner, HoldingProvider& provider)
        : ForwardingEndpoint(std::move(inner)), provider_(provider) {}
    absl::Status PostSend(uint64_t cookie, std::span<const dat::Segment> from,
                          const SendOptions& options) override {
      ++provider_.sent;
      if (!options.more) ++provider_.pieces;
      return inner().PostSend(cookie, from, options);
    }
    size_t Poll(std::span<dat::Completion> out) override {
      absl::MutexLock lock(&provider_.stopped);
      return provider_.hold ? 0 : inner().Poll(out);
    }

   private:
    HoldingProvider& provider_;
  };

  Wrapper NextWrapper() override {
    return [this](EndpointPtr inner) {
      return std::make_unique<HoldingEndpoint>(std::move(inner), *this);
    };
  }
};

}  // namespace dafs::fuse
