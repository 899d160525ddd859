// Matches responses with their requests, delivers them to the calls, and resumes a chain after its
// last response.
// Spec: WIRE 2.5, 3.2, 6, 11.5.
//
// Belongs to the thread of the session's loop. Nothing allocates. After OnReceive and OnInvalidated
// the session may be dead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/exchange/exchange.h"
#include "client/exchange/message_buffers.h"
#include "client/exchange/session_context.h"
#include "client/exchange/slots.h"
#include "client/exchange/window_invalidator.h"
#include "wire/protocol/header.h"

namespace dafs::client {

class Receiver {
 public:
  // All must outlive this.
  Receiver(SessionContext& context, MessageBuffers& buffers, Slots& slots,
           WindowInvalidator& windows, Exchanges& exchanges);
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  // Posts a receive for each slot. A request is sent only if a receive is posted for its response.
  absl::Status PostReceives();

  // A message arrived in receive `index`.
  void OnReceive(size_t index, uint32_t size_bytes);
  // A memory window has ended: delivers the responses that waited for it.
  void OnInvalidated(uint64_t cookie);

  absl::Time last_heard() const { return last_heard_; }  // the last response
  uint32_t peer_version() const { return peer_version_; }

 private:
  absl::Status PostReceive(size_t index);
  bool WaitsForWindow(size_t index, uint32_t size_bytes);
  void HandleMessage(size_t index, uint32_t size_bytes);
  absl::Status Deliver(Slot& slot, std::span<const std::byte> message,
                       const wire::ResponseHeader& header, bool damaged);
  void Complete(Slot& slot);
  void Count(const Slot& slot, size_t size_bytes, wire::DafsStatus status);
  void NoteRenewal(const Slot& slot, wire::DafsStatus status);

  SessionContext& context_;
  MessageBuffers& buffers_;
  Slots& slots_;
  WindowInvalidator& windows_;
  Exchanges& exchanges_;
  absl::Time last_heard_;
  absl::Time last_noted_;
  uint32_t peer_version_ = 0;  // of the last response
};

}  // namespace dafs::client
