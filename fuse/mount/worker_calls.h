// Starts a worker's calls: each becomes a coroutine of Operations, and reports its end to what may
// wait for it, a restart or the worker's end. Belongs to the worker's thread. Nothing blocks.
#pragma once

#include <memory>
#include <utility>

#include "client/memory/buffer_pool.h"
#include "fuse/kernel/answer_path.h"
#include "fuse/kernel/protocol.h"
#include "fuse/mount/worker_context.h"
#include "fuse/mount/worker_ending.h"
#include "fuse/mount/worker_restart.h"
#include "fuse/request/call.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

class WorkerCalls {
 public:
  // All must outlive this.
  WorkerCalls(WorkerContext& context, WorkerRestart& restart, WorkerEnding& ending)
      : context_(context), restart_(restart), ending_(ending) {}
  WorkerCalls(const WorkerCalls&) = delete;
  WorkerCalls& operator=(const WorkerCalls&) = delete;

  // Starts the call of a request that came on `path`. The arguments are those of Call. Call after
  // context.operations was made.
  void Start(AnswerPath& path, const fuse_in_header& header, Call::Body body,
             client::BufferLease lease) {
    Serve(std::make_unique<Call>(path, context_.calls, header, body, std::move(lease)));
  }
  void Serve(std::unique_ptr<Call> call) {
    dafs::Start(context_.operations->Serve(std::move(call), [this] { CallDone(); }));
    context_.operations->Began();
  }

 private:
  void CallDone() {
    restart_.CallDone();
    ending_.CallDone();
  }

  WorkerContext& context_;
  WorkerRestart& restart_;
  WorkerEnding& ending_;
};

}  // namespace dafs::fuse
