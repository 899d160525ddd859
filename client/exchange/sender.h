// Encodes the requests of a chain into the send buffers of their slots, and posts them: at once, or
// together with later requests.
// Spec: 4.3 (chains), 5.2.1 (stream_id, seq_number), 6.1.2 (header); WIRE 8.
//
// Belongs to the thread of the session's loop. Nothing allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/exchange/call.h"
#include "client/exchange/exchange.h"
#include "client/exchange/message_buffers.h"
#include "client/exchange/session_context.h"
#include "client/exchange/slots.h"
#include "client/exchange/window_invalidator.h"
#include "runtime/loop/loop.h"

namespace dafs::client {

class Sender {
 public:
  // All must outlive this.
  Sender(SessionContext& context, MessageBuffers& buffers, Slots& slots,
         WindowInvalidator& windows);
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // Encodes all members, so that a chain is sent as a whole or not at all, and binds their slots to
  // `exchange`. Each goes into its slot of `indices`. Post must follow. On an error nothing will be
  // sent, and the slots are free. kFailedPrecondition: a request exceeds the negotiated size.
  // kUnavailable: a memory window could not be bound; the session fails.
  absl::Status Prepare(wire::CredHandle cred, Exchange& exchange,
                       std::span<const uint16_t> indices);
  // Posts what is prepared: now, with the loop's next turn, or within kMostWait, as the calls of
  // `chain` allow.
  void Post(std::span<CallBase* const> chain);
  // Posts all that is prepared now, in one send if the transport can.
  void PostAll();
  // Call in each turn of the loop.
  void PostDue() {
    if (with_turn_) PostAll();
  }

  // The session has ended: stops the timer, and drops what was not posted.
  void StopTimer();
  void Clear() { unposted_.clear(); }

 private:
  struct Unposted {
    uint16_t slot = 0;
    uint32_t bytes = 0;
  };

  absl::StatusOr<size_t> Encode(wire::CredHandle cred, std::span<CallBase* const> chain,
                                size_t index, Slot& slot);
  absl::Status Drop(const absl::Status& why, std::span<const uint16_t> indices);
  Xid XidOf(std::span<CallBase* const> chain, size_t index, uint16_t slot);
  void PostSoon();

  SessionContext& context_;
  MessageBuffers& buffers_;
  Slots& slots_;
  WindowInvalidator& windows_;
  std::vector<Unposted> unposted_;  // to be posted in this order
  Loop::TimerId timer_ = 0;
  bool with_turn_ = false;  // unposted requests are posted at the next PostDue
};

}  // namespace dafs::client
