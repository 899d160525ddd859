// How the directives of a Back-control Channel leave, as the channel sees it. Requests implements
// it. Belongs to the session's thread; nothing blocks.
#pragma once

#include <cstddef>
#include <memory>

#include "server/session/transfer/message_buffers.h"

namespace dafs::server {

class DirectiveSender {
 public:
  virtual ~DirectiveSender() = default;

  // Returns true if the connection has ended, or ends: nothing can be sent.
  virtual bool ending() const = 0;
  // Returns a buffer for one directive, or null if all are in use.
  virtual std::unique_ptr<Outgoing> TakeBuffer() = 0;
  // Sends the directive in the first `size_bytes` of the buffer. 0: it could not be encoded, so the
  // connection ends.
  virtual void SendDirective(std::unique_ptr<Outgoing> outgoing, size_t size_bytes) = 0;
};

}  // namespace dafs::server
