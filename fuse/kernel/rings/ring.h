// FUSE over io_uring: a worker's end of the kernel's queues, one for each possible CPU. The kernel
// sends a request to the queue of the CPU on which its caller runs, into an entry that waits there.
// The answer is written to the entry. Submitting the entry also fetches the next request. FORGET,
// INTERRUPT and notifications still use /dev/fuse.
//
// An entry has a header and a payload buffer, and the kernel learns their addresses once. So the
// data of a READ is copied one time more than with /dev/fuse: from the registered buffer that the
// server has written, to the payload of the entry. The payload itself cannot be registered for the
// server. If the caller of an outstanding READ is killed, the READ could then not be answered
// before the server's reply, because after an answer the kernel at once puts the next request where
// the server may still write. The data of a WRITE is copied to a registered buffer, which the
// server may then read for as long as it wants. (To save the copies, the payload would have to be a
// second mapping of a registered buffer, and to be exchanged for another when a call is abandoned.
// The copies cost 1 MiB calls a fifth and more: scripts/bench --peer dafs-uring.)
//
// An entry is held until its request is answered, however long that takes: a blocked lock, an
// unreachable server. A queue without a free entry keeps new requests. The kernel looks at these
// only when an entry of that queue is answered. But an unlock must never wait for the lock that
// waits for it. So a queue starves if all its entries are held and none is answered for
// kStarvesAfter. It then gets more entries. The kernel uses new entries only for new requests. So
// the kernel is made to send as many requests from that CPU (KernelChannel::AskForNothing), about a
// file of the held requests. The answer to each of these fetches one of the requests that the queue
// kept.
//
// Belongs to the worker's thread, which must also create it. Nothing blocks.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "fuse/kernel/answer_path.h"
#include "fuse/kernel/rings/ring_plan.h"
#include "fuse/kernel/rings/ring_request.h"
#include "fuse/kernel/uring_protocol.h"
#include "runtime/loop/loop.h"

namespace dafs::fuse {

class KernelRing : private Pollable {
 public:
  // Long enough for a working server to answer, and short for a caller that waits for a lock.
  static constexpr absl::Duration kStarvesAfter = absl::Milliseconds(20);

  // Handles the request, which lies in the entry until it is answered. `answer` lives as long as
  // the ring. The handler may answer before it returns.
  using Handler = absl::AnyInvocable<void(const RingRequest& request, AnswerPath& answer)>;
  // Makes the kernel send `count` requests without a meaning to the queue of CPU `queue`, about one
  // of `nodes`, which the kernel knows. Returns false if the kernel does not send them all.
  using Kick =
      absl::AnyInvocable<bool(uint16_t queue, size_t count, std::span<const uint64_t> nodes)>;

  // Errors: kPermissionDenied, kUnimplemented, kResourceExhausted: io_uring is not available to us.
  static absl::StatusOr<std::unique_ptr<KernelRing>> Create(const RingPlan& plan, uint32_t worker);
  ~KernelRing() override;
  KernelRing(const KernelRing&) = delete;
  KernelRing& operator=(const KernelRing&) = delete;

  // Call once INIT is answered. Gives the entries to the kernel, through `device` (borrowed), and
  // adds the ring to `loop`. On an error the kernel does not accept them, and continues with
  // /dev/fuse.
  absl::Status Start(int device, Loop& loop, Handler handler, Kick kick);
  // Stops taking requests. Those already taken can still be answered.
  void Stop();

  // Takes the requests that the kernel has sent so far. Call this before handling an INTERRUPT,
  // which may have overtaken its request.
  void Take() { Poll(); }

  // For the handler: whether another request has already arrived.
  bool has_more() const { return io_uring_cq_ready(&ring_) != 0; }

  size_t queues() const { return queues_.size(); }

 private:
  struct Queue;
  class Entry;
  struct Memory;

  explicit KernelRing(const RingPlan& plan);
  bool Poll() override;
  WaitHandle Arm() override;

  bool Grow(Queue& queue, size_t count);
  void Submit(Entry& entry, uint32_t command, uint64_t commit_id);
  void Flush();
  bool TakeOne();
  void Complete(Entry& entry, int result);
  bool Answer(Entry& entry, uint64_t unique, int error, std::initializer_list<AnswerPath::Bytes>);
  void WatchForStarving();
  void LookForStarving();
  std::vector<uint64_t> HeldNodes(const Queue& first) const;

  const RingPlan plan_;
  io_uring ring_ = {};
  bool open_ = false;
  int device_ = -1;
  Loop* loop_ = nullptr;  // set between Start and Stop
  Handler handler_;
  Kick kick_;
  std::vector<std::unique_ptr<Queue>> queues_;
  uint32_t unsubmitted_ = 0;
  absl::Status refused_;  // set if the kernel refused an entry
  Loop::TimerId starving_timer_ = 0;
};

}  // namespace dafs::fuse
