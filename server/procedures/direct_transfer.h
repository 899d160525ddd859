// Moves bytes between a worker's direct memory and the buffers of a client, by RDMA. A list of
// client buffers is one byte string; a piece on one side may span several on the other.
// Spec: 3.2.3.2, 6.1.7; WIRE 10.1. The server issues all RDMA. An RDMA write posted before the
// response arrives before it (appendix B), so a response does not wait for the writes' completions.
// Belongs to the session's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "runtime/loop/task.h"
#include "server/session/session.h"
#include "wire/dat/dat.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// One RDMA operation: contiguous on both sides.
struct RdmaOp {
  std::byte* data = nullptr;
  uint32_t size_bytes = 0;
  dat::RemoteBuffer remote;
};
using RdmaOps = absl::InlinedVector<RdmaOp, 8>;

// The client's buffers, consumed from the front. The caller owns them.
class RemoteRange {
 public:
  explicit RemoteRange(std::span<const wire::DirectOpBuffer> buffers) : buffers_(buffers) {}

  // Returns the operations that move `local`, in order, to or from the next bytes of the range. The
  // range must hold that many (checked with the arguments).
  RdmaOps Next(std::span<const std::span<std::byte>> local);

 private:
  std::span<const wire::DirectOpBuffer> buffers_;
  uint32_t used_ = 0;  // bytes consumed of the first buffer
};

// Posts the RDMA writes of one response. Few operations are posted unsignaled: their credits and
// memory are released when the response has been sent. Many operations are posted signaled, and
// Done waits for their completions.
class DirectWriter {
 public:
  // At most this many operations are posted unsignaled.
  static constexpr size_t kFew = 8;

  // Writes `memory`, in order, to the front of `buffers`, which hold as much.
  DirectWriter(Call& call, std::span<const wire::DirectOpBuffer> buffers,
               std::span<const std::span<std::byte>> memory)
      : call_(call), session_(call.session()), ops_(RemoteRange(buffers).Next(memory)) {}

  // Call before the first Post. Waits for the credits of few operations. With many, Post waits for
  // the credit of each.
  Task<void> Begin();
  // Posts the writes of `data`: the next piece of the memory, or the front of it.
  Task<void> Post(std::span<std::byte> data);
  // Call after the last Post. `lease` is the source memory; moved into the response if the writes
  // may be incomplete. Returns false if an operation failed: the session is ending.
  Task<bool> Done(DirectLease& lease);

 private:
  bool few() const { return ops_.size() <= kFew; }

  Call& call_;
  Session& session_;
  const RdmaOps ops_;
  size_t next_ = 0;  // the next of ops_ to be posted
  RdmaWork work_;
  bool failed_ = false;
};

// Writes `content`, one piece of `lease`, to the front of `buffers`. Moves the lease into the
// response if the writes may be incomplete.
Task<bool> WriteDirectContent(Call& call, std::span<std::byte> content,
                              std::span<const wire::DirectOpBuffer> buffers, DirectLease& lease);

// The channel that data is written on: the one that carries the report of its completion, so that
// the data arrives first.
enum class WriteChannel : uint8_t { kOperation, kBackControl };

// Executes `ops` and waits for their completion. `ops` outlives the task. Returns false if the
// session is ending.
Task<bool> WriteToClient(Session& session, const RdmaOps& ops, WriteChannel channel);
// Likewise, as RDMA reads. kServerFault: the session is ending. kRdmaReadChannelUnusable: the
// client has not bound the RDMA-read Channel (R61).
Task<wire::DafsStatus> ReadFromClient(Session& session, const RdmaOps& ops);
// Reads `buffers` into `lease`, which has exactly their size. All that is borrowed outlives the
// task. Statuses as for ReadFromClient. kChksum: the session uses checksums, and that of the data
// is not `expected`.
Task<wire::DafsStatus> FetchData(Session& session, const DirectLease& lease,
                                 std::span<const wire::DirectOpBuffer> buffers,
                                 wire::Checksum expected);

}  // namespace dafs::server
