// A provider that records the request ids of the batches that its connections send.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/client/forwarding_provider.h"
#include "tests/wire/dat/forwarding_endpoint.h"
#include "wire/codec/codec.h"
#include "wire/messages/messages.h"

namespace dafs::client {

class RecordingProvider final : public ForwardingProvider {
 public:
  RecordingProvider(dat::Provider& inner, wire::ByteOrder order)
      : ForwardingProvider(inner), order_(order) {}

  // The ids in the order of sending, of all connections.
  std::vector<uint64_t> ids;
  int batches = 0;

 private:
  class Endpoint final : public dat::ForwardingEndpoint {
   public:
    Endpoint(EndpointPtr inner, RecordingProvider& provider)
        : ForwardingEndpoint(std::move(inner)), provider_(provider) {}
    absl::Status PostSend(uint64_t cookie, std::span<const dat::Segment> from,
                          const SendOptions& options) override {
      std::vector<std::byte> message;
      for (const dat::Segment& part : from) {
        message.insert(message.end(), part.data, part.data + part.size_bytes);
      }
      provider_.Note(message);
      return inner().PostSend(cookie, from, options);
    }

   private:
    RecordingProvider& provider_;
  };

  void Note(std::span<const std::byte> message) {
    const auto header = wire::DecodeRequestHeader(message, order_);
    if (!header.ok() || header->header.procedure != wire::Proc::kBatchSubmit) return;
    wire::BatchSubmitArgs args;
    if (wire::DecodeArgs(message, order_, args) != wire::DafsStatus::kOk) return;
    ++batches;
    for (const wire::RwRequest& request : args.requests) ids.push_back(request.request_id);
  }
  Wrapper NextWrapper() override {
    return [this](EndpointPtr inner) -> EndpointPtr {
      return std::make_unique<Endpoint>(std::move(inner), *this);
    };
  }

  const wire::ByteOrder order_;
};

}  // namespace dafs::client
