// A worker: one thread with one loop, which waits for the kernel and for the worker's session, and
// answers the kernel from where the answer arrives (ARCHITECTURE "Threads"). Nothing is handed to
// another thread but interrupts.
//
// With FUSE over io_uring the requests come by a ring of the worker (fuse/kernel/ring.h), and
// /dev/fuse brings what the kernel sends by it only.
//
// The end: when the kernel hangs up (umount, abort) or Stop() is called, calls in hand get
// kDrainFor to finish (a CLOSE may be among them), data that was written and not committed gets
// kCommitFor if there is a session, the session is ended politely within kFarewellFor, and what is
// still out then is abandoned.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "absl/status/statusor.h"
#include "client/files/files.h"
#include "client/session/report.h"
#include "fuse/kernel/channel.h"
#include "fuse/kernel/ring.h"
#include "fuse/operations/mount_state.h"
#include "fuse/operations/operations.h"
#include "fuse/request/call.h"
#include "fuse/request/interrupts.h"
#include "fuse/request/request_room.h"
#include "runtime/loop.h"

namespace dafs::fuse {

class Worker : private dat::Pollable {
 public:
  static constexpr absl::Duration kDrainFor = absl::Milliseconds(1500);
  static constexpr absl::Duration kCommitFor = absl::Seconds(6);
  static constexpr absl::Duration kFarewellFor = absl::Seconds(1);

  // Starts the thread. `state` and `client` outlive the worker. `ended` runs on the thread as its
  // last act.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(MountState& state, client::Client& client,
                                                       std::function<void()> ended);
  ~Worker() override;  // stops and joins
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // What a mount needs to know before it is made. `done` runs on the worker's thread.
  struct Root {
    absl::Status connected;
    client::SessionReport session;  // once connected
    absl::StatusOr<client::Node> node = absl::UnknownError("not asked");
  };
  void FindRoot(std::function<void(Root)> done);

  // From any thread: begins to serve the kernel on `fd` (/dev/fuse).
  void Serve(UniqueFd fd);
  // FUSE over io_uring, from any thread but the worker's; these wait for it. MakeRing, before
  // Serve: what INIT needs to know. Worker `number` of the plan's. StartRing, once INIT has agreed;
  // an error: requests come by /dev/fuse. DropRing: it has not.
  absl::Status MakeRing(const RingPlan& plan, uint32_t number);
  absl::Status StartRing();
  void DropRing();
  void Interrupt(uint64_t unique);
  void Stop();
  void Join();

 private:
  Worker(MountState& state, std::unique_ptr<dat::Loop> loop, std::unique_ptr<client::Files> files);

  bool Poll() override;
  dat::WaitHandle Arm() override;

  dat::Task<void> Park(std::unique_ptr<Call> call, std::span<const std::byte> data);
  void Serve(std::unique_ptr<Call> call);
  void Handle(std::span<const std::byte> request);
  void HandleOfRing(const RingRequest& request, AnswerPath& path);
  dat::Task<void> TakeWrite(RingRequest request, AnswerPath& path);
  void InterruptHere(uint64_t unique);
  bool WakeQueue(uint16_t cpu, size_t times, std::span<const uint64_t> nodes);
  absl::Status OnLoop(std::function<absl::Status()> function);
  void Init(const fuse_in_header& header, std::span<const std::byte> body);
  void InterruptRequest(std::span<const std::byte> body);
  void StartCall(AnswerPath& path, const fuse_in_header& header, Call::Body body,
                 client::BufferLease lease);
  dat::Task<void> AskForRoot(std::function<void(Root)> done);
  void End();
  void CallDone();
  void Drained();
  bool Committing() const;
  void Farewell();
  dat::Task<void> SayFarewell();

  MountState& state_;
  std::unique_ptr<dat::Loop> loop_;
  std::unique_ptr<client::Files> files_;
  std::optional<KernelChannel> channel_;
  std::unique_ptr<KernelRing> ring_;
  uint64_t next_wake_ = uint64_t{1} << 62;  // numbers that the kernel does not give
  CallsInHand calls_;
  RequestRoom room_;
  Interrupts interrupts_;
  std::optional<Operations> operations_;
  bool ended_ = false;
  bool farewell_ = false;
  dat::Loop::TimerId end_timer_ = 0;
  absl::Time ended_at_;
  std::thread thread_;
};

}  // namespace dafs::fuse
