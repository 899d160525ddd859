// FUSE over io_uring: a worker's end of the kernel's queues, one for each CPU that may ever be.
// A request is sent to the queue of the CPU on which its caller runs, into an entry that waits
// there; an answer is left in the entry, and handing it over asks for the next request. FORGET,
// INTERRUPT and notifications go by /dev/fuse as ever.
//
// An entry has a header and a payload buffer, both named to the kernel once and for all. That is
// why READ's data is copied once more than by /dev/fuse, from the registered buffer the server has
// written to the entry's: were the entry's own registered for the server, a READ whose caller is
// killed while it is out could not be answered before the server has, since the kernel at once
// puts the next request where the server still may write. And a WRITE's is copied to a registered
// buffer, which the server may then read for as long as it wants. (To save the copies, the entry's
// payload would have to be a second mapping of a registered buffer, to be exchanged for another's
// when a call is abandoned. They cost 1 MiB calls a fifth and more: scripts/bench --peer
// dafs-uring.)
//
// An entry is held until its request is answered, however long that takes: a blocked lock, a server
// that is away. A queue without a free entry keeps what comes, and the kernel looks at what it
// kept only when an entry of that queue is answered. So that an unlock never waits for the lock
// that waits for it, a queue all of whose entries are held, without an answer for kStarvesAfter, is
// given more; and because new entries are only used for new requests, the kernel is made to send
// as many from that CPU (KernelChannel::AskForNothing), about a file that the held requests are
// about: the answer to each fetches one of those it kept.
//
// Belongs to the worker's thread, on which it is made. Nothing blocks.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "fuse/kernel/answer_path.h"
#include "fuse/kernel/ring_request.h"
#include "fuse/kernel/uring_protocol.h"
#include "runtime/loop.h"

namespace dafs::fuse {

// Which queues the workers of a mount serve, and with how much.
struct RingPlan {
  uint32_t queues = 0;       // of the mount: the CPUs that may ever be
  uint32_t workers = 1;      // of the mount
  uint32_t entries = 16;     // of each queue to begin with
  size_t payload_bytes = 0;  // whole pages; the largest READ, WRITE, name or value
  std::string name;          // "server:/export", for the log

  // The queues of worker `number`: each queue has a worker and each worker a queue.
  std::vector<uint16_t> QueuesOf(uint32_t number) const;
};

// The CPUs that this machine may ever have; 0: not known.
uint32_t PossibleCpus();

class KernelRing : private dat::Pollable {
 public:
  // Long enough for a server that does its work, short to whoever waits for a lock.
  static constexpr absl::Duration kStarvesAfter = absl::Milliseconds(20);
  // Of one queue: more calls than these do not wait at once. Each costs two pages and the memory
  // its largest request took.
  static constexpr size_t kMostEntries = 4096;

  // Takes the request, which lies in the entry until it is answered; `answer` lives as long as the
  // ring. An answer may come from within.
  using Handler = absl::AnyInvocable<void(const RingRequest& request, AnswerPath& answer)>;
  // Makes the kernel send `count` requests without a meaning to the queue of CPU `queue`, about one
  // of `nodes`, which the kernel knows. False: about none of them.
  using Kick =
      absl::AnyInvocable<bool(uint16_t queue, size_t count, std::span<const uint64_t> nodes)>;

  // kPermissionDenied, kUnimplemented, kResourceExhausted: this system has no io_uring for us.
  static absl::StatusOr<std::unique_ptr<KernelRing>> Create(const RingPlan& plan, uint32_t worker);
  ~KernelRing() override;
  KernelRing(const KernelRing&) = delete;
  KernelRing& operator=(const KernelRing&) = delete;

  // Once INIT is answered: hands the entries to the kernel, by `device` (borrowed), and has `loop`
  // serve what comes. An error: the kernel does not take them, and goes on with /dev/fuse.
  absl::Status Start(int device, dat::Loop& loop, Handler handler, Kick kick);
  // No request is taken any more; what was taken can still be answered.
  void Stop();

  // Takes what the kernel has sent by now: to be called before an INTERRUPT is looked at, which may
  // have overtaken its request.
  void Take() { Poll(); }

  // For the handler: another request is there already.
  bool has_more() const { return io_uring_cq_ready(&ring_) != 0; }

  size_t queues() const { return queues_.size(); }

 private:
  struct Queue;
  class Entry;
  struct Memory;

  explicit KernelRing(const RingPlan& plan);
  bool Poll() override;
  dat::WaitHandle Arm() override;

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
  dat::Loop* loop_ = nullptr;  // between Start and Stop
  Handler handler_;
  Kick kick_;
  std::vector<std::unique_ptr<Queue>> queues_;
  uint32_t unsubmitted_ = 0;
  absl::Status refused_;  // of an entry, by the kernel
  dat::Loop::TimerId starving_timer_ = 0;
};

}  // namespace dafs::fuse
