// A worker is one thread with one loop, which waits for the kernel and for the worker's session.
// The thread that receives the server's reply also answers the kernel (docs/decisions.md, Threads).
// Only interrupts are handed to another thread.
//
// With FUSE over io_uring, requests arrive on the worker's ring (fuse/kernel/rings/ring.h).
// /dev/fuse then delivers only the requests that the kernel never sends by a ring.
//
// A worker ends when the kernel closes the connection (umount, abort) or Stop() is called:
// - Outstanding calls get kDrainFor to finish; a CLOSE may be among them.
// - Uncommitted data gets kCommitFor if the session is up.
// - The session gets kFarewellFor to disconnect. Requests that are then outstanding are abandoned.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/exchange/report.h"
#include "client/files/files.h"
#include "fuse/files/user_files.h"
#include "fuse/kernel/channel.h"
#include "fuse/kernel/rings/ring.h"
#include "fuse/operations/operations.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/request/call.h"
#include "fuse/request/interrupts.h"
#include "fuse/request/request_room.h"
#include "runtime/loop/loop.h"

namespace dafs::fuse {

class Worker : private Pollable {
 public:
  static constexpr absl::Duration kDrainFor = absl::Milliseconds(1500);
  static constexpr absl::Duration kCommitFor = absl::Seconds(6);
  static constexpr absl::Duration kFarewellFor = absl::Seconds(1);

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
  // FUSE over io_uring. Any thread except the worker's; MakeRing and StartRing block until the
  // worker has done it. MakeRing makes the ring of worker `number` of the plan, before Serve,
  // because INIT depends on it. After INIT, call StartRing if the kernel agreed, otherwise
  // DropRing. If StartRing fails, requests arrive on /dev/fuse.
  absl::Status MakeRing(const RingPlan& plan, uint32_t number);
  absl::Status StartRing();
  void DropRing();
  void Interrupt(uint64_t unique);

  // For a restart (docs/restart.md). Any thread; the functions run on the worker's.
  // Whether the server answers now: sends NULL.
  void AskServer(std::function<void(absl::Status)> done);
  // `done`: the worker has begun to serve all requests that it has read before.
  void CatchUp(std::function<void()> done) { loop_->Post(std::move(done)); }
  // Commits what is written until now; `done` when the server has it.
  void Commit(std::function<void()> done);
  // Begins to return the delegations that are due.
  void ReturnDelegations();
  // Begins to close opens of the client that nothing uses: those of `dropped`, requests of the
  // kernel that it does not send again, and `opens`.
  void Close(std::vector<uint64_t> dropped, std::vector<wire::StateId> opens);
  // Reads no more requests, and takes back those that wait for a lock. `drained`: when no request
  // is unanswered. Not with a ring.
  void Pause(std::function<void()> drained);
  // The requests that Pause has taken back. Blocks until the worker has answered.
  std::vector<std::vector<std::byte>> TakeRetracted();
  // Serves (again), beginning with `retracted`. `fd` as in Serve, or none if the worker had one.
  void Resume(UniqueFd fd, std::vector<std::vector<std::byte>> retracted);
  // Another program continues the mount: Stop drains and commits nothing.
  void HandOver();

  void Stop();
  void Join();

 private:
  Worker(MountState& state, std::unique_ptr<Loop> loop, std::unique_ptr<client::Files> files,
         std::unique_ptr<UserFiles> user_files);

  bool Poll() override;
  WaitHandle Arm() override;

  Task<void> Park(std::unique_ptr<Call> call, std::span<const std::byte> data);
  void Serve(std::unique_ptr<Call> call);
  void Handle(std::span<const std::byte> request);
  bool Refuses(const fuse_in_header& header);
  void HandleOfRing(const RingRequest& request, AnswerPath& path);
  Task<void> TakeWrite(RingRequest request, AnswerPath& path);
  void InterruptHere(uint64_t unique);
  bool WakeQueue(uint16_t cpu, size_t times, std::span<const uint64_t> nodes);
  absl::Status OnLoop(std::function<absl::Status()> function);
  void Init(const fuse_in_header& header, std::span<const std::byte> body);
  void InterruptRequest(std::span<const std::byte> body);
  void StartCall(AnswerPath& path, const fuse_in_header& header, Call::Body body,
                 client::BufferLease lease);
  Task<void> AskForRoot(std::function<void(Root)> done);
  Task<void> CloseEach(std::vector<uint64_t> dropped, std::vector<wire::StateId> opens);
  bool IsDrained() const;
  void LookIfDrained();
  void LookIfCommitted();
  void End();
  void CallDone();
  void Drained();
  bool Committing() const;
  void Farewell();
  Task<void> SayFarewell();

  MountState& state_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<client::Files> files_;
  std::unique_ptr<UserFiles> user_files_;  // by *files_
  std::optional<KernelChannel> channel_;
  std::unique_ptr<KernelRing> ring_;
  uint64_t next_wake_ = uint64_t{1} << 62;            // request numbers that the kernel never uses
  std::optional<client::InFlightEntries> in_flight_;  // outlives the calls
  OutstandingCalls calls_;
  RequestRoom room_;
  Interrupts interrupts_;
  std::optional<Operations> operations_;
  bool paused_ = false;
  bool handed_over_ = false;
  std::function<void()> drained_;    // of Pause, until then
  std::function<void()> committed_;  // of Commit, until then
  bool ended_ = false;
  bool farewell_ = false;
  Loop::TimerId end_timer_ = 0;
  absl::Time ended_at_;
  std::thread thread_;
};

}  // namespace dafs::fuse
