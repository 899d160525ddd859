// One end of a verbs connection: a queue pair with one completion queue for both its queues.
// endpoint.cc makes it and posts work; progress.cc handles events and completions.
//
//   made -> connecting | accepting -> connected -> [closing | broken] -> dead
//
//   closing  Disconnect was called: posted work is sent, then the connection ends
//   broken   the device flushed work, but the connection manager has not reported the reason yet.
//            The endpoint waits a moment, because an orderly close by the peer looks the same
//   dead     the queue pair is destroyed, everything was reported, kDisconnected last
//
// Spec: appendix B; E.5.3, E.5.4, E.7; WIRE 11.1. One thread, as in wire/dat/dat.h. Internal.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/files/unique_fd.h"
#include "wire/dat/dat.h"
#include "wire/dat/verbs/connection.h"
#include "wire/dat/verbs/connection_timers.h"
#include "wire/dat/verbs/domain.h"
#include "wire/dat/verbs/handles.h"
#include "wire/dat/verbs/ready.h"
#include "wire/dat/verbs/receive_cookies.h"
#include "wire/dat/verbs/send_queue.h"
#include "wire/dat/verbs/verbs.h"
#include "wire/dat/verbs/windows.h"

namespace dafs::dat::verbs {

// How the endpoint was made: by a client or from a connection request.
struct Origin {
  bool is_server = false;
  std::vector<std::byte> private_data;  // of the request (server)
  uint8_t responder_resources = 0;      // as offered by the request (server)
  uint8_t initiator_depth = 0;
};

class VerbsEndpoint final : public Endpoint {
 public:
  static absl::StatusOr<std::unique_ptr<Endpoint>> Create(std::unique_ptr<Connection> connection,
                                                          VerbsDomain& domain, Origin origin,
                                                          const EndpointOptions& options,
                                                          const VerbsOptions& verbs_options);
  ~VerbsEndpoint() override;

  absl::Status Connect(std::span<const std::byte> private_data) override;
  absl::Status Accept(std::span<const std::byte> private_data) override;

  absl::Status PostReceive(uint64_t cookie, Segment into) override;
  absl::Status PostSend(uint64_t cookie, std::span<const Segment> from,
                        const SendOptions& options) override;
  absl::Status PostRdmaWrite(uint64_t cookie, std::span<const Segment> from, RemoteBuffer to,
                             bool signaled) override;
  absl::Status PostRdmaRead(uint64_t cookie, std::span<const Segment> into,
                            RemoteBuffer from) override;

  absl::StatusOr<RemoteBuffer> PostBind(const Segment& part, Access access) override;
  absl::Status PostInvalidate(uint64_t cookie, uint32_t context) override;
  bool can_invalidate() const override { return domain_.limits().can_invalidate; }

  void Flush() override;
  size_t Poll(std::span<Completion> out) override;
  WaitHandle Arm() override;
  void Disconnect() override;
  void Abort(absl::Status why) override;

  std::span<const std::byte> peer_private_data() const override { return origin_.private_data; }
  const Address& peer() const override { return peer_; }
  uint32_t max_segments() const override { return queue_.limits().max_segments; }
  std::string description() const override;

 private:
  enum class State : uint8_t {
    kMade,
    kConnecting,
    kAccepting,
    kConnected,
    kClosing,
    kBroken,
    kDead
  };

  // The handles that Create makes before the endpoint exists, in the order of their release.
  struct Handles {
    std::unique_ptr<Connection> connection;  // null after a half-made connection was withdrawn
    CompletionChannel channel;
    CompletionQueue completions;
    QueuePair queue_pair;
    UniqueFd epoll;
  };

  VerbsEndpoint(Handles handles, VerbsDomain& domain, Origin origin, const EndpointOptions& options,
                const VerbsOptions& verbs_options, const SendQueueLimits& send_limits);

  rdma_conn_param ConnectionParameters(std::span<const std::byte> private_data) const;
  absl::Status CheckOpen(const char* what) const;
  absl::Status ToSegments(std::span<const Segment> from, bool is_read_sink,
                          std::vector<ibv_sge>* segments) const;
  absl::Status Submit(const SendQueue::Operation& operation, std::span<const Segment> segments);

  void Progress();
  // Takes the event of a completion, so that it does not end the next sleep too. Returns false if
  // there is none.
  bool TakeCompletionEvent();
  void DrainEvents();
  void HandleEvent(ConnectionEvent& event);
  // Probes the peer if the probe timer has expired and the connection was idle.
  void Probe();
  // Handles at most one batch of the completion queue's entries. Returns their number.
  size_t PollCompletions();
  void HandleWork(const ibv_wc& work);
  void HandleReceive(const ibv_wc& work, const absl::Status& status);
  // Whether the message invalidated a context of ours.
  bool Invalidated(const ibv_wc& work) const;
  void Connected(const ConnectionEvent* event);
  // The device does no more work. Waits a moment for the connection manager to report the reason.
  void Break(absl::Status why);
  void End(absl::Status why);

  bool polls_completions() const {
    return state_ != State::kMade && state_ != State::kConnecting && state_ != State::kDead;
  }

  Handles handles_;
  VerbsDomain& domain_;
  Origin origin_;
  const EndpointOptions options_;
  const Address peer_;
  const uint8_t port_;  // of the device

  State state_ = State::kMade;
  // The connection was up: there is one to take down. Never reset.
  bool was_connected_ = false;
  // Set by a post that the device refused, and by Abort. The next Poll ends the connection.
  absl::Status fault_;
  // Why the connection ended. While ending, an error from the completion queue replaces "closed".
  absl::Status cause_;
  // Arm was called, so the event sources may have events.
  bool armed_ = false;
  bool must_poll_ = false;  // Disconnect was called: poll before the next sleep
  uint32_t polls_since_events_ = 0;
  BreakWait break_wait_;  // in state kBroken
  PeerProbe probe_;

  ReadyList ready_;
  Windows windows_;  // destroyed before the queue pair
  SendQueue queue_;
  std::vector<ibv_sge> segments_;  // of the operation being posted
  ReceiveCookies receives_;
};

}  // namespace dafs::dat::verbs
