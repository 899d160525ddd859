// An endpoint that forwards every call to another one. Base class for endpoints that change a few
// calls, such as faulty_endpoint.h. Same rules and thread as the endpoint inside.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "wire/dat/dat.h"

namespace dafs::dat {

class ForwardingEndpoint : public Endpoint {
 public:
  explicit ForwardingEndpoint(std::unique_ptr<Endpoint> inner) : inner_(std::move(inner)) {}

  absl::Status Connect(std::span<const std::byte> private_data) override {
    return inner_->Connect(private_data);
  }
  absl::Status Accept(std::span<const std::byte> private_data) override {
    return inner_->Accept(private_data);
  }
  absl::Status PostReceive(uint64_t cookie, Segment into) override {
    return inner_->PostReceive(cookie, into);
  }
  absl::Status PostSend(uint64_t cookie, std::span<const Segment> from,
                        const SendOptions& options) override {
    return inner_->PostSend(cookie, from, options);
  }
  absl::Status PostRdmaWrite(uint64_t cookie, std::span<const Segment> from, RemoteBuffer to,
                             bool signaled) override {
    return inner_->PostRdmaWrite(cookie, from, to, signaled);
  }
  absl::Status PostRdmaRead(uint64_t cookie, std::span<const Segment> into,
                            RemoteBuffer from) override {
    return inner_->PostRdmaRead(cookie, into, from);
  }
  absl::StatusOr<RemoteBuffer> PostBind(const Segment& part, Access access) override {
    return inner_->PostBind(part, access);
  }
  absl::Status PostInvalidate(uint64_t cookie, uint32_t context) override {
    return inner_->PostInvalidate(cookie, context);
  }
  bool can_invalidate() const override { return inner_->can_invalidate(); }
  void Flush() override { inner_->Flush(); }
  size_t Poll(std::span<Completion> out) override { return inner_->Poll(out); }
  WaitHandle Arm() override { return inner_->Arm(); }
  void Disconnect() override { inner_->Disconnect(); }
  void Abort(absl::Status why) override { inner_->Abort(std::move(why)); }
  std::span<const std::byte> peer_private_data() const override {
    return inner_->peer_private_data();
  }
  const Address& peer() const override { return inner_->peer(); }
  std::shared_ptr<const TlsPeer> tls_peer() const override { return inner_->tls_peer(); }
  uint32_t max_segments() const override { return inner_->max_segments(); }
  std::string description() const override { return inner_->description(); }

 protected:
  Endpoint& inner() { return *inner_; }

 private:
  std::unique_ptr<Endpoint> inner_;
};

}  // namespace dafs::dat
