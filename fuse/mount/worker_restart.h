// The part of a worker that a restart needs (docs/restart.md): it drains, passes on the requests
// that wait for a lock, and continues. Worker::Resume ends the pause.
// Any thread may call the first group of functions. They run on the worker's thread, and only
// TakeRetracted blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fuse/mount/worker_context.h"
#include "fuse/mount/worker_ending.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

class WorkerRestart {
 public:
  // `requests` is the source of requests that a pause removes from the loop. `handle` carries out a
  // request, with its header. All must outlive this.
  WorkerRestart(WorkerContext& context, WorkerEnding& ending, Pollable& requests,
                std::function<void(std::span<const std::byte>)> handle)
      : context_(context), ending_(ending), requests_(requests), handle_(std::move(handle)) {}
  WorkerRestart(const WorkerRestart&) = delete;
  WorkerRestart& operator=(const WorkerRestart&) = delete;

  // Whether the server answers now: sends NULL.
  void AskServer(std::function<void(absl::Status)> done);
  // `done`: the worker has begun to serve all requests that it has read before.
  void CatchUp(std::function<void()> done) { context_.loop->Post(std::move(done)); }
  // Commits what is written so far; `done` when the server has it.
  void Commit(std::function<void()> done);
  // Begins to return the delegations that are due.
  void ReturnDelegations();
  // Begins to close opens of the client that nothing uses: those of `dropped`, requests of the
  // kernel that it does not send again, and `opens`. A pause waits for it.
  void Close(std::vector<uint64_t> dropped, std::vector<wire::StateId> opens);
  // `done`: nothing is left of calls of Close before.
  void AwaitClosed(std::function<void()> done);
  // Reads no more requests, and takes back those that wait for a lock. `drained`: when no request
  // is unanswered. Not with a ring.
  void Pause(std::function<void()> drained);
  // The requests that Pause has taken back. Blocks until the worker has answered.
  std::vector<std::vector<std::byte>> TakeRetracted();
  // Another program continues the mount: Stop drains and commits nothing.
  void HandOver();

  // The worker's thread.
  bool paused() const { return paused_; }
  bool handed_over() const { return handed_over_; }
  // Ends a pause. Returns whether there was one; the caller adds the source to the loop again.
  bool EndPause();
  // Call at the end of each call. Begins the requests again that a pause without a restart has
  // taken back.
  void CallDone() {
    if (!paused_ && !ending_.has_begun() && context_.calls.any_retracted()) BeginAgain();
  }

 private:
  Task<void> CloseEach(std::vector<uint64_t> dropped, std::vector<wire::StateId> opens);
  bool IsDrained() const;
  void LookIfClosed();
  void LookIfDrained();
  void LookIfCommitted();
  void BeginAgain();

  WorkerContext& context_;
  WorkerEnding& ending_;
  Pollable& requests_;
  const std::function<void(std::span<const std::byte>)> handle_;
  size_t closing_ = 0;  // calls of Close whose work has not ended
  bool paused_ = false;
  bool handed_over_ = false;
  std::function<void()> closed_;     // of AwaitClosed, until then
  std::function<void()> drained_;    // of Pause, until then
  std::function<void()> committed_;  // of Commit, until then
};

}  // namespace dafs::fuse
