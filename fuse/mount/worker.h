// A worker is one thread with one loop, which waits for the kernel and for the worker's session.
// The thread that receives the server's reply also answers the kernel (docs/decisions.md, Threads).
// docs/threading.md lists what goes to other threads.
//
// The worker itself reads requests from /dev/fuse. Its parts do the rest: WorkerRing takes requests
// by io_uring, WorkerCalls starts their calls, WorkerRestart pauses for a restart, WorkerEnding
// ends.
//
// A worker ends when the kernel closes the connection (umount, abort) or Stop() is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/exchange/report.h"
#include "client/files/files.h"
#include "fuse/files/user_files.h"
#include "fuse/kernel/protocol.h"
#include "fuse/mount/worker_calls.h"
#include "fuse/mount/worker_context.h"
#include "fuse/mount/worker_ending.h"
#include "fuse/mount/worker_restart.h"
#include "fuse/mount/worker_ring.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/request/call.h"
#include "fuse/request/interrupts.h"
#include "fuse/request/request_room.h"
#include "runtime/files/unique_fd.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

class Worker : private Pollable {
 public:
  // Starts the thread. `state` and `client` must outlive the worker. The thread calls `ended` last.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(MountState& state, client::Client& client,
                                                       std::function<void()> ended);
  ~Worker() override;  // stops and joins
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // The session and the root directory, which a mount needs before /dev/fuse is attached.
  // FindRoot calls `done` on the worker's thread.
  struct Root {
    absl::Status connected;
    client::SessionReport session;  // once connected
    absl::StatusOr<client::Node> node = absl::UnknownError("not asked");
  };
  void FindRoot(std::function<void(Root)> done);

  // Begins to serve the kernel on `fd` (/dev/fuse). Any thread.
  void Serve(UniqueFd fd) { Resume(std::move(fd), {}); }
  // Serves (again), beginning with `retracted`. `fd` as in Serve, or none if the worker had one.
  // Any thread.
  void Resume(UniqueFd fd, std::vector<std::vector<std::byte>> retracted);
  // The request `unique`, of any worker, was interrupted. Any thread.
  void Interrupt(uint64_t unique);

  WorkerRing& ring() { return ring_; }
  WorkerRestart& restart() { return restart_; }

  void Stop();
  void Join();

 private:
  Worker(MountState& state, std::unique_ptr<Loop> loop, std::unique_ptr<client::Files> files,
         std::unique_ptr<UserFiles> user_files);

  bool Poll() override;
  WaitHandle Arm() override;

  Task<void> AskForRoot(std::function<void(Root)> done);
  void MakeOperations(UniqueFd fd);
  Task<void> Park(std::unique_ptr<Call> call, std::span<const std::byte> data);
  void Handle(std::span<const std::byte> request);
  bool Refuses(const fuse_in_header& header);
  void InterruptHere(uint64_t unique);
  void Init(const fuse_in_header& header, std::span<const std::byte> body);
  void InterruptRequest(std::span<const std::byte> body);
  void End();

  MountState& state_;
  WorkerContext context_;
  WorkerEnding ending_{context_};
  WorkerRestart restart_{context_, ending_, *this,
                         [this](std::span<const std::byte> request) { Handle(request); }};
  WorkerCalls calls_{context_, restart_, ending_};
  RequestRoom room_;
  Interrupts interrupts_;
  WorkerRing ring_{context_, ending_, calls_, interrupts_};
  std::thread thread_;
};

}  // namespace dafs::fuse
