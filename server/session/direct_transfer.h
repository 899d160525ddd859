// Moves bytes between a worker's direct memory and the buffers of a client, by RDMA. A list of
// client buffers is one byte string; pieces on either side may straddle the other's.
// Spec: 3.2.3.2, 6.1.7; WIRE 10.1. All RDMA is ours; an RDMA write posted before the response is
// there before it (appendix B), so a response need not wait for the writes' completions.
// Belongs to the session's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "runtime/task.h"
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

// The client's buffers, used up from the front. They stay the caller's.
class RemoteRange {
 public:
  explicit RemoteRange(std::span<const wire::DirectOpBuffer> buffers) : buffers_(buffers) {}

  // The operations that move `local`, in order, to or from the next bytes of the range. The range
  // holds that many (the arguments were checked).
  RdmaOps Next(std::span<const std::span<std::byte>> local);

 private:
  std::span<const wire::DirectOpBuffer> buffers_;
  uint32_t used_ = 0;  // of the first one
};

// Posts the RDMA writes of one response. With few operations no completion is asked for: their
// credits come back, and their memory is free, when the response has been sent. With many each is
// signaled, and Done waits for them.
class DirectWriter {
 public:
  // Up to this many operations go out unsignaled.
  static constexpr size_t kFew = 8;

  // `operations`: an upper bound for the whole response.
  DirectWriter(Call& call, size_t operations)
      : call_(call), session_(call.session()), operations_(operations) {}

  // Before the first Post: takes the credits.
  dat::Task<void> Begin();
  // Posts `op`, or its first `size_bytes`. False if the session has failed.
  dat::Task<bool> Post(RdmaOp op, uint32_t size_bytes);
  // All are posted. The memory they come from stays in `lease`, which goes with the response if it
  // has to. False if an operation failed: the session is ending.
  dat::Task<bool> Done(DirectLease& lease);

 private:
  bool few() const { return operations_ <= kFew; }

  Call& call_;
  Session& session_;
  const size_t operations_;
  Session::RdmaWork work_;
  bool failed_ = false;
};

// Writes `content`, one piece of `lease`, to the front of `buffers`. The lease is taken when the
// writes are not known to be complete.
dat::Task<bool> WriteDirectContent(Call& call, std::span<std::byte> content,
                                   std::span<const wire::DirectOpBuffer> buffers,
                                   DirectLease& lease);

// By which channel data is written: the one that its end is told by, so that it is there before.
enum class WriteChannel : uint8_t { kOperation, kBackControl };

// Moves what `ops` say, and waits for it; `ops` outlives the task. False: the session is ending.
dat::Task<bool> WriteToClient(Session& session, const RdmaOps& ops, WriteChannel channel);
// The same. kServerFault: the session is ending; kRdmaReadChannelUnusable: the client has not bound
// the channel it would come by (R61).
dat::Task<wire::DafsStatus> ReadFromClient(Session& session, const RdmaOps& ops);
// For a call, which is cut short with its session.
dat::Task<wire::DafsStatus> ReadFromClient(Call& call, const RdmaOps& ops);

}  // namespace dafs::server
