// Flow control of one channel: how many requests the client may have outstanding, and the buffers
// for them and for their responses.
// Spec: 3.2.6 (flow control), 5.2.2 (streams); WIRE 11.5.
// Belongs to the session's thread. Allocates memory only when the number of credits grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "server/session/connection/connection.h"
#include "server/session/connection/streams.h"
#include "server/session/receives.h"
#include "server/session/shared/credit.h"
#include "server/session/transfer/message_buffers.h"

namespace dafs::server {

class FlowControl {
 public:
  // `session` is what the requests refer to. All are borrowed and outlive this.
  FlowControl(Connection& connection, CreditBudget& budget, Session& session)
      : connection_(connection), budget_(budget), receives_(connection, session) {}
  ~FlowControl() { ReleaseMemory(); }
  FlowControl(const FlowControl&) = delete;
  FlowControl& operator=(const FlowControl&) = delete;

  // Prepares for the connect exchange: one request of kFirstReceiveBytes.
  absl::Status Start();
  // The session is open: posts receives for `wanted` requests, as memory allows, at most `most`.
  // Returns how many; 0: not even one.
  uint32_t Open(size_t request_bytes, size_t response_bytes, uint32_t wanted, uint32_t most);
  // The channel becomes a Back-control Channel: posts receives for the replies to `wanted`
  // directives of up to `directive_bytes`, as memory allows, and returns how many. Beside them
  // stays the receive of the connect exchange, for a repeated CONNECT_BIND. Ends the connection if
  // a receive cannot be posted.
  uint32_t OpenBackControl(size_t directive_bytes, uint32_t wanted);
  // The memory no longer counts as used. The buffers are freed by the destructor.
  void ReleaseMemory();

  // Returns target_nreq of the response being built, for a request with `desired_nreq`. Posts the
  // receives for a higher number first.
  uint16_t Target(uint16_t desired_nreq);
  // A response leaves: posts the receive of its request again, or drops it when the number of
  // credits shrinks (3.2.6.3, 3.2.6.4.2). On failure the connection must end.
  absl::Status BeforeResponse(Receive& receive);
  // Posts the receive of a message that needs no response.
  absl::Status Repost(Receive& receive) { return receives_.Post(receive); }

  // Returns a buffer for one message, or null if all are in use.
  std::unique_ptr<Outgoing> TakeSendBuffer() { return send_buffers_.Take(); }
  void ReturnSendBuffer(std::unique_ptr<Outgoing> outgoing) {
    send_buffers_.Return(std::move(outgoing));
  }
  Streams& streams() { return streams_; }
  // Call when no request is on the stack.
  void FreeDropped() { receives_.FreeDropped(); }

 private:
  Connection& connection_;
  CreditBudget& budget_;
  Receives receives_;
  SendBuffers send_buffers_;
  Streams streams_;
  std::optional<Credit> credit_;  // set once the session is open
  uint16_t target_ = 1;           // target_nreq of the response being built
  size_t request_bytes_ = 0;      // of the open session
  size_t response_bytes_ = 0;
  size_t channel_bytes_ = 0;  // reserved for the messages of a Back-control Channel
};

}  // namespace dafs::server
