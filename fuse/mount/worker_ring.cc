#include "fuse/mount/worker_ring.h"

#include <sched.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "fuse/kernel/protocol.h"
#include "runtime/status_macros.h"

namespace dafs::fuse {

absl::Status WorkerRing::Make(const RingPlan& plan, uint32_t number) {
  return context_.Run([this, plan, number]() -> absl::Status {
    ASSIGN_OR_RETURN(ring_, KernelRing::Create(plan, number));
    return absl::OkStatus();
  });
}

absl::Status WorkerRing::Start() {
  return context_.Run([this]() -> absl::Status {
    if (ending_.has_begun() || !context_.channel.has_value()) {
      return absl::CancelledError("the mount has ended");
    }
    return ring_->Start(
        context_.channel->fd(), *context_.loop,
        [this](const RingRequest& request, AnswerPath& path) { Handle(request, path); },
        [this](uint16_t cpu, size_t times, std::span<const uint64_t> nodes) {
          return WakeQueue(cpu, times, nodes);
        });
  });
}

void WorkerRing::Drop() {
  context_.loop->Post([this] { ring_.reset(); });
}

void WorkerRing::Handle(const RingRequest& request, AnswerPath& path) {
  const fuse_in_header& header = request.header;
  const client::Files::RequestCoalescing coalescing(*context_.files, ring_->has_more());
  switch (header.opcode) {
    case FUSE_NOTIFY_REPLY:  // WakeQueue's
    case FUSE_DESTROY:
      path.ReplyError(header.unique, 0);
      return;
    case FUSE_WRITE:
      if (request.operation.size() != sizeof(fuse_write_in) ||
          request.payload.size() > context_.state.options.wsize) {
        path.ReplyError(header.unique, EINVAL);
      } else {
        dafs::Start(TakeWrite(request, path));
      }
      return;
    default: {
      const size_t most = BodyMax(header.opcode);
      Call::Body body = {request.operation, request.payload};
      if (body.second.size() > most) body.second = body.second.first(most);
      interrupts_.WatchRing();
      calls_.Start(path, header, body, client::BufferLease());
    }
  }
}

// If no write buffer is free, the ring's entry waits for one.
Task<void> WorkerRing::TakeWrite(RingRequest request, AnswerPath& path) {
  const auto size = static_cast<uint32_t>(request.payload.size());
  absl::StatusOr<client::BufferLease> lease =
      co_await context_.files->buffers().Acquire(client::BufferUse::kWriteSource, size);
  if (!lease.ok()) {
    path.ReplyError(request.header.unique, EIO);
    co_return;
  }
  std::memcpy(lease->payload(), request.payload.data(), size);
  calls_.Start(path, request.header, {request.operation}, *std::move(lease));
}

// Makes the kernel send `times` requests, about `nodes`, to the queue of CPU `cpu`, so that it
// looks at the requests that it keeps for that queue (fuse/kernel/rings/ring.h). The thread runs on
// that CPU meanwhile, because the kernel uses the queue of the CPU on which a request is made.
// Returns false if this process may not use that CPU, or if all held requests are about
// directories. The queue then waits for the next request of a program.
bool WorkerRing::WakeQueue(uint16_t cpu, size_t times, std::span<const uint64_t> nodes) {
  cpu_set_t before, there;
  CPU_ZERO(&there);
  if (cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof(before), &before) != 0) return false;
  CPU_SET(cpu, &there);
  if (sched_setaffinity(0, sizeof(there), &there) != 0) return false;
  size_t asked = 0;
  for (auto node = nodes.begin(); node != nodes.end() && asked < times;) {
    if (context_.channel->AskForNothing(next_wake_ += 2, *node)) {
      ++asked;
    } else {
      ++node;
    }
  }
  sched_setaffinity(0, sizeof(before), &before);
  return asked == times;
}

}  // namespace dafs::fuse
