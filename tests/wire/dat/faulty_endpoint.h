// An endpoint that wraps another one and fails on purpose. Tests use it to see how the layers above
// handle a failure of the n-th operation. A sweep raises n until a run completes without a fault
// (fired() is false). Same rules and thread as the endpoint inside.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "tests/wire/dat/forwarding_endpoint.h"

namespace dafs::dat {

// The failure that the counted operation causes.
enum class FaultKind : uint8_t {
  kPostFails,  // the post returns kUnavailable and the connection ends
  kCutBefore,  // the post is accepted, but the connection ends before anything is sent
  kCutAfter,   // the post is sent, then the connection ends: the peer may act on it
  // The post is sent. The connection ends at its completion, which is reported as failed: the peer
  // did act on it.
  kLoseCompletion,
};

// The operations to count.
enum FaultOperations : uint8_t {
  kFaultReceive = 1,
  kFaultSend = 2,
  kFaultRdmaWrite = 4,
  kFaultRdmaRead = 8,
  kFaultAnyPost = 15,
};

struct FaultPlan {
  FaultKind kind = FaultKind::kPostFails;
  uint8_t operations = kFaultAnyPost;
  uint64_t countdown = 0;  // the operation that fails, counted from 1; 0: none
};

class FaultyEndpoint final : public ForwardingEndpoint {
 public:
  FaultyEndpoint(std::unique_ptr<Endpoint> inner, const FaultPlan& plan)
      : ForwardingEndpoint(std::move(inner)), plan_(plan), left_(plan.countdown) {}

  // Whether the fault has happened.
  bool fired() const { return fired_; }

  absl::Status PostReceive(uint64_t cookie, Segment into) override;
  absl::Status PostSend(uint64_t cookie, std::span<const Segment> from,
                        const SendOptions& options) override;
  absl::Status PostRdmaWrite(uint64_t cookie, std::span<const Segment> from, RemoteBuffer to,
                             bool signaled) override;
  absl::Status PostRdmaRead(uint64_t cookie, std::span<const Segment> into,
                            RemoteBuffer from) override;
  size_t Poll(std::span<Completion> out) override;

 private:
  bool IsDue(FaultOperations operation);
  // Runs `post` with the fault.
  template <typename Post>
  absl::Status Break(Event event, uint64_t cookie, Post post);

  const FaultPlan plan_;
  uint64_t left_;
  bool fired_ = false;
  bool lost_pending_ = false;  // kLoseCompletion: the completion to lose is outstanding
  Event lost_event_ = Event::kSend;
  uint64_t lost_cookie_ = 0;
};

}  // namespace dafs::dat
