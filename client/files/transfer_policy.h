// Decides how the data of one request travels: inline in the message, or directly between memories,
// and how many bytes at most. Learns from refusals what the server and the session cannot do.
// Spec: 4.2.1 (inline), 4.2.2 (direct), 6.5.15 (MAX_READ, MAX_WRITE, MAX_APPEND); WIRE 5.3, R61.
// Belongs to the thread of its loop; what it learns about the server is shared by all workers.
// Nothing blocks.
#pragma once

#include <cstdint>

#include "client/memory/buffer_pool.h"
#include "client/state/client.h"

namespace dafs::client {

class CallBase;
class Connection;

class TransferPolicy {
 public:
  // All outlive it.
  TransferPolicy(Client& client, const BufferPool& buffers, const Connection& connection)
      : client_(client), buffers_(buffers), connection_(connection) {}

  // The size limits of one read, write and append: the least of the options, the server's limits
  // and a large buffer. The caller splits requests that are larger than a buffer.
  uint32_t read_bytes() const;
  uint32_t write_bytes() const;
  uint32_t append_bytes() const;

  // The largest data of a WRITE_INLINE or APPEND_INLINE in the present session.
  uint32_t InlineWriteRoom() const;
  // Whether the server cannot read data from this client's memory.
  bool NeedsInlineWrites() const;
  // Whether the server refused `call` because it cannot read data from this client's memory. The
  // call was not executed and must be sent inline. Records that for the server, or for the session.
  bool RefusedAsDirect(const CallBase& call);

 private:
  Client& client_;
  const BufferPool& buffers_;
  const Connection& connection_;
};

}  // namespace dafs::client
