// The server's half of a Back-control Channel: sends directives, receives replies. The client owns
// the credits of this direction: it grants them in CONNECT_BIND and again in each reply.
// Spec: 3.1.2.3.3, 3.2.6.1, 3.2.6.4.2, 6.6; WIRE 9.4 (CONNECT_BIND), 11.5, R72, R74.
// Belongs to the thread of its session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "wire/messages/back_control.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class Session;

class BackControl {
 public:
  // The most that this server asks for: outstanding directives, and bytes of one.
  static constexpr uint32_t kMostRequests = 8;
  static constexpr uint32_t kMostRequestBytes = 4096;
  // The least that a client may offer: room for one completion, and for a bare header.
  static constexpr uint32_t kLeastRequestBytes = 80;
  static constexpr uint32_t kLeastResponseBytes = 40;

  // `channel` is bound; `granted` and `request_bytes` were agreed on when it was bound.
  BackControl(Session& channel, uint32_t granted, uint32_t request_bytes, wire::ByteOrder order,
              bool checksums);
  BackControl(const BackControl&) = delete;
  BackControl& operator=(const BackControl&) = delete;

  // The number of completions that fit in one directive. Spec: 3.2.6.4.1.
  size_t most_completions() const;

  // Sends BC_BATCH_COMPLETION. Returns false if no credit or no buffer is free; Batches::Report is
  // called when one may be.
  bool Send(const wire::BcBatchCompletionArgs& args);

  // Returns true if the message that arrived on the channel is a reply to a directive. Other
  // messages are requests on the channel itself.
  bool IsResponse(std::span<const std::byte> message) const;
  // Processes such a reply. kDataLoss: it matches no directive, and the caller must end the
  // channel.
  absl::Status OnResponse(std::span<const std::byte> message);

 private:
  struct Stream {
    bool busy = false;
    uint16_t seq_number = 0;
  };

  Session& channel_;
  const uint32_t request_bytes_;
  const wire::ByteOrder order_;
  const bool checksums_;
  std::vector<Stream> streams_;
  uint32_t nreq_;  // may exceed the number of streams_
  uint32_t outstanding_ = 0;
};

}  // namespace dafs::server
