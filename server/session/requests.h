// The requests of one channel, from their arrival until their responses have been sent.
// Spec: 3.2.6, 4.3; WIRE 9.2.
//
// Checks requests as they arrive and begins them in that order, as far as chains (request_queue.h)
// and send buffers permit. Credits bound what a client makes the server hold: each costs a receive
// buffer, a send buffer and a Call.
//
// Belongs to the session's thread; nothing blocks. A fault of the peer ends the connection.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "server/session/directives/directive_sender.h"
#include "server/session/flow_control.h"
#include "server/session/request_queue.h"
#include "server/session/response_recorder.h"
#include "server/store/objects/recent_stats.h"
#include "wire/dat/dat.h"
#include "wire/rules/request_check.h"

namespace dafs::server {

class Session;

class Requests final : public DirectiveSender {
 public:
  // `session` owns this, and has its connection.
  explicit Requests(Session& session);
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  FlowControl& flow() { return flow_; }
  ResponseRecorder& recorder() { return recorder_; }
  bool busy() const { return queue_.busy(); }  // some are being executed

  // Between these, requests that arrive do not begin. So members of a chain that arrived together
  // are answered together.
  void BeginTurn() { running_ = true; }
  void EndTurn();
  // A message of `size_bytes` has arrived.
  void OnReceive(Receive& receive, size_t size_bytes);
  // A message has been sent.
  void OnSent(std::unique_ptr<Outgoing> outgoing);
  // The transport has ended: no request begins any more.
  void OnDisconnected();

  // For Call: `response_bytes` of request.outgoing are the response. 0: it could not be encoded,
  // and the connection ends. The request is gone when this returns.
  void Complete(Request& request, wire::DafsStatus status, size_t response_bytes);

  // DirectiveSender, for BackControl.
  bool ending() const override;
  std::unique_ptr<Outgoing> TakeBuffer() override { return flow_.TakeSendBuffer(); }
  void SendDirective(std::unique_ptr<Outgoing> outgoing, size_t size_bytes) override;

 private:
  // requests.cc
  wire::RequestVerdict Check(std::span<const std::byte> message);
  bool TakeStream(Request& request);
  void RunReady();
  void Begin(Request& request);
  void SetCaller(Request& request);

  // responses.cc
  void Count(const Request& request, size_t response_bytes, wire::DafsStatus status);
  void CountUse(const Request& request, size_t response_bytes);
  void Settle(Request& request, wire::DafsStatus status, std::span<const std::byte> response);
  bool PrepareToSend(Request& request, size_t response_bytes);
  bool Send(std::unique_ptr<Outgoing> outgoing, size_t size_bytes,
            const dat::Endpoint::SendOptions& options);
  void Park(std::unique_ptr<Outgoing> outgoing);
  void Flush();

  Session& session_;
  FlowControl flow_;
  ResponseRecorder recorder_;
  RequestQueue queue_;
  wire::ChainState chain_state_;
  RecentStats recent_stats_;  // of the previous request
  const bool invalidates_;    // responses invalidate the memory that the request names
  absl::Time now_;            // as last read; at the latest when the present turn began
  bool running_ = false;      // RunReady is on the stack, or must not run
  bool holding_ = false;      // the response of the request that begins may wait for others
  absl::Time held_since_ = absl::InfiniteFuture();  // when the first of their requests began
  std::vector<std::unique_ptr<Outgoing>> parked_;   // unsent; kept until the transport has ended
};

}  // namespace dafs::server
