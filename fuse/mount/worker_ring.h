// FUSE over io_uring in a worker: the requests that arrive on the worker's ring
// (fuse/kernel/rings/ring.h). /dev/fuse then delivers only the requests that the kernel never sends
// by a ring.
// Any thread except the worker's may call Make, Start and Drop; the other functions belong to the
// worker's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "fuse/kernel/answer_path.h"
#include "fuse/kernel/rings/ring.h"
#include "fuse/kernel/rings/ring_plan.h"
#include "fuse/kernel/rings/ring_request.h"
#include "fuse/mount/worker_calls.h"
#include "fuse/mount/worker_context.h"
#include "fuse/mount/worker_ending.h"
#include "fuse/request/interrupts.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

class WorkerRing {
 public:
  // All must outlive this.
  WorkerRing(WorkerContext& context, WorkerEnding& ending, WorkerCalls& calls,
             Interrupts& interrupts)
      : context_(context), ending_(ending), calls_(calls), interrupts_(interrupts) {}
  WorkerRing(const WorkerRing&) = delete;
  WorkerRing& operator=(const WorkerRing&) = delete;

  // Make and Start block until the worker has done it. Make makes the ring of worker `number` of
  // the plan, before Worker::Serve, because INIT depends on it. After INIT, call Start if the
  // kernel agreed, otherwise Drop. If Start fails, requests arrive on /dev/fuse.
  absl::Status Make(const RingPlan& plan, uint32_t number);
  absl::Status Start();
  void Drop();

  // As KernelRing::Take and KernelRing::Stop. Without a ring they do nothing.
  void Take() {
    if (ring_ != nullptr) ring_->Take();
  }
  void Stop() {
    if (ring_ != nullptr) ring_->Stop();
  }

 private:
  void Handle(const RingRequest& request, AnswerPath& path);
  Task<void> TakeWrite(RingRequest request, AnswerPath& path);
  bool WakeQueue(uint16_t cpu, size_t times, std::span<const uint64_t> nodes);

  WorkerContext& context_;
  WorkerEnding& ending_;
  WorkerCalls& calls_;
  Interrupts& interrupts_;
  std::unique_ptr<KernelRing> ring_;        // null: none
  uint64_t next_wake_ = uint64_t{1} << 62;  // request numbers that the kernel never uses
};

}  // namespace dafs::fuse
