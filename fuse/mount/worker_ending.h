// The end of a worker, from the close of the kernel's connection or Stop() to the end of its loop:
// - Outstanding calls get kDrainFor to finish; a CLOSE may be among them.
// - Uncommitted data gets kCommitFor if the session is up.
// - The session gets kFarewellFor to disconnect. Requests that are then outstanding are abandoned.
// Belongs to the worker's thread. Nothing blocks.
#pragma once

#include "absl/time/time.h"
#include "fuse/mount/worker_context.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

class WorkerEnding {
 public:
  static constexpr absl::Duration kDrainFor = absl::Milliseconds(1500);
  static constexpr absl::Duration kCommitFor = absl::Seconds(6);
  static constexpr absl::Duration kFarewellFor = absl::Seconds(1);

  // `context` must outlive this.
  explicit WorkerEnding(WorkerContext& context) : context_(context) {}
  WorkerEnding(const WorkerEnding&) = delete;
  WorkerEnding& operator=(const WorkerEnding&) = delete;

  // Whether the worker has begun to end: it takes no more requests.
  bool has_begun() const { return has_begun_; }
  // Returns false if it had begun before. The caller stops taking requests, and then calls Drain,
  // or Farewell if nothing must be waited for.
  bool Begin();
  // Waits for the calls and for uncommitted data, then calls Farewell.
  void Drain();
  // Call at the end of each call.
  void CallDone() {
    if (has_begun_) CallDoneAtEnd();
  }
  // Disconnects the session and stops the loop.
  void Farewell();

 private:
  void CallDoneAtEnd();
  void DrainLate();
  bool Committing() const;
  Task<void> SayFarewell();

  WorkerContext& context_;
  bool has_begun_ = false;
  bool farewell_ = false;
  Loop::TimerId timer_ = 0;
  absl::Time began_at_;
};

}  // namespace dafs::fuse
