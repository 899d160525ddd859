// An endpoint that fails on purpose, around any other: for tests of what happens to the layers
// above when the n-th operation breaks. A sweep raises n until a run completes untouched (fired()
// false). Same rules and thread as the endpoint inside.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "wire/dat/dat.h"

namespace dafs::dat {

// What breaks when the counted operation comes.
enum class FaultKind : uint8_t {
  kPostFails,       // the post returns kUnavailable, and the connection ends
  kCutBefore,       // the post is accepted, but the connection ends before anything is sent
  kCutAfter,        // the post goes out, then the connection ends: the peer may act on it
  kLoseCompletion,  // the post goes out and the connection ends when its completion comes, which
                    // is reported as failed: the peer did act on it
};

// Which operations count.
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
  uint64_t countdown = 0;  // the operation that breaks, from 1; 0: none
};

class FaultyEndpoint final : public Endpoint {
 public:
  FaultyEndpoint(std::unique_ptr<Endpoint> inner, const FaultPlan& plan)
      : inner_(std::move(inner)), plan_(plan), left_(plan.countdown) {}

  // Whether the fault has happened.
  bool fired() const { return fired_; }

  absl::Status Connect(std::span<const std::byte> private_data) override {
    return inner_->Connect(private_data);
  }
  absl::Status Accept(std::span<const std::byte> private_data) override {
    return inner_->Accept(private_data);
  }
  absl::Status PostReceive(uint64_t cookie, Segment into) override;
  absl::Status PostSend(uint64_t cookie, std::span<const Segment> from,
                        const SendOptions& options) override;
  absl::Status PostRdmaWrite(uint64_t cookie, std::span<const Segment> from, RemoteBuffer to,
                             bool signaled) override;
  absl::Status PostRdmaRead(uint64_t cookie, std::span<const Segment> into,
                            RemoteBuffer from) override;
  absl::StatusOr<RemoteBuffer> PostBind(const Segment& part, Access access) override {
    return inner_->PostBind(part, access);
  }
  absl::Status PostInvalidate(uint64_t cookie, uint32_t context) override {
    return inner_->PostInvalidate(cookie, context);
  }
  bool can_invalidate() const override { return inner_->can_invalidate(); }
  void Flush() override { inner_->Flush(); }
  size_t Poll(std::span<Completion> out) override;
  WaitHandle Arm() override { return inner_->Arm(); }
  void Disconnect() override { inner_->Disconnect(); }
  void Abort(absl::Status why) override { inner_->Abort(std::move(why)); }
  std::span<const std::byte> peer_private_data() const override {
    return inner_->peer_private_data();
  }
  const Address& peer() const override { return inner_->peer(); }
  uint32_t max_segments() const override { return inner_->max_segments(); }
  std::string description() const override { return inner_->description(); }

 private:
  bool IsDue(FaultOperations operation);
  // Runs `post` with the fault around it.
  template <typename Post>
  absl::Status Break(Event event, uint64_t cookie, Post post);

  std::unique_ptr<Endpoint> inner_;
  const FaultPlan plan_;
  uint64_t left_;
  bool fired_ = false;
  bool lost_pending_ = false;  // kLoseCompletion: the completion to lose
  Event lost_event_ = Event::kSend;
  uint64_t lost_cookie_ = 0;
};

}  // namespace dafs::dat
