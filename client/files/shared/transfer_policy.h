// Decides how the data of one request travels, and how many bytes at most. Learns from refusals
// what the server and the session cannot do.
// Spec: 4.2.1 (inline), 4.2.2 (direct), 6.5.15 (MAX_READ, MAX_WRITE, MAX_APPEND); WIRE 5.3, R61.
// Belongs to the thread of its loop; what it learns about the server is shared by all workers.
// Nothing blocks.
#pragma once

#include <cstdint>

#include "client/memory/buffer_pool.h"
#include "client/state/client.h"
#include "wire/protocol/status.h"

namespace dafs::client {

class CallBase;
class SessionKeeper;

// Inline: in the message. Direct: between the memories of client and server, by RDMA.
enum class Way : uint8_t { kInline, kDirect };

struct Transfer {
  Way way = Way::kInline;
  uint32_t bytes = 0;
};

class TransferPolicy {
 public:
  // All outlive it.
  TransferPolicy(Client& client, const BufferPool& buffers, const SessionKeeper& session_keeper)
      : client_(client), buffers_(buffers), session_keeper_(session_keeper) {}

  // The size limits of one read, write and append: the least of the options, the server's limits
  // and a large buffer. The caller splits requests that are larger than a buffer.
  uint32_t read_bytes() const;
  uint32_t write_bytes() const;
  uint32_t append_bytes() const;

  // How the next request transfers the first of `bytes` bytes. `registered`: the server can access
  // the memory. ForWrite returns at most write_bytes().
  Transfer ForRead(uint32_t bytes, bool registered) const;
  Transfer ForWrite(uint32_t bytes, bool registered) const;
  // How a write of exactly `bytes` bytes travels, at most append_bytes().
  Way WayToWrite(uint32_t bytes) const;
  Way WayToList() const;

  // The largest data of a WRITE_INLINE or APPEND_INLINE in the present session.
  uint32_t InlineWriteRoom() const;
  // Whether the server cannot read data from this client's memory.
  bool NeedsInlineWrites() const;

  // Each records the refusal of a request, for the server or for the session. True: the request was
  // not executed, and repeating it as the functions above now say may succeed.
  //
  // The server has no READ_DIRECT, or no READDIR_DIRECT.
  bool LearnFromRead(Way way, const CallBase& call);
  bool LearnFromList(Way way, const CallBase& call);
  // The server cannot read data from this client's memory.
  bool LearnFromWrite(Way way, const CallBase& call);
  // A write was too large, with the error `refused`: for the server, which need not report its
  // limit (WIRE 5.3), or for the smaller messages of a new session.
  bool LearnFromSize(const Transfer& transfer, wire::DafsStatus refused);

 private:
  Client& client_;
  const BufferPool& buffers_;
  const SessionKeeper& session_keeper_;
};

}  // namespace dafs::client
