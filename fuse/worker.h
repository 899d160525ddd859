// A worker: one thread with one loop, which waits for the kernel and for the worker's session, and
// answers the kernel from where the answer arrives (ARCHITECTURE "Threads"). Nothing is handed to
// another thread but interrupts.
//
// A request is read into a kept buffer of the worker's pool, placed so that a WRITE's data begins
// on a page; the WRITE takes the buffer with it. While all write buffers are out, no request is
// read, and the kernel queues them: as a rule one is back at once. If none is for kStarvedAfter
// (the server is slow, or away), requests are read into memory of their own, so that those of
// programs that are killed are among them, and others need not wait for writes; WRITEs wait there
// for a buffer, up to kParkedMost of them.
//
// With FUSE over io_uring the requests come by a ring of the worker (kernel_ring.h), and /dev/fuse
// brings what the kernel sends by it only.
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
#include "client/files.h"
#include "client/report.h"
#include "fuse/call.h"
#include "fuse/interrupts.h"
#include "fuse/kernel_channel.h"
#include "fuse/kernel_ring.h"
#include "fuse/mount_state.h"
#include "fuse/operations.h"
#include "wire/dat/loop.h"

namespace dafs::fuse {

class Worker : private dat::Pollable {
 public:
  static constexpr absl::Duration kDrainFor = absl::Milliseconds(1500);
  static constexpr absl::Duration kCommitFor = absl::Seconds(6);
  static constexpr absl::Duration kFarewellFor = absl::Seconds(1);
  static constexpr absl::Duration kStarvedAfter = absl::Milliseconds(200);
  static constexpr size_t kParkedMost = size_t{8} << 20;  // bytes, but for the last

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

  bool HaveBuffer();
  dat::Task<void> WaitForBuffer();
  bool ReadsApart() const;
  std::span<std::byte> Room();
  dat::Task<void> Park(std::unique_ptr<Call> call, std::span<const std::byte> data);
  void Unpark(Call& call);
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
  Interrupts interrupts_;
  std::optional<Operations> operations_;
  client::BufferLease buffer_;  // the next request is read into it
  bool waiting_for_buffer_ = false;
  bool starved_ = false;                // no write buffer has come back for kStarvedAfter
  dat::Loop::TimerId starving_ = 0;     // until that is so
  std::unique_ptr<std::byte[]> apart_;  // requests are read into it then; made when it is needed
  size_t parked_ = 0;                   // bytes of the WRITEs that wait for a buffer
  size_t parked_calls_ = 0;             // these, and those whose caller was killed since
  bool ended_ = false;
  bool farewell_ = false;
  dat::Loop::TimerId end_timer_ = 0;
  absl::Time ended_at_;
  std::thread thread_;
};

}  // namespace dafs::fuse
