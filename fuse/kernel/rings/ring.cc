#include "fuse/kernel/rings/ring.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "fuse/kernel/rings/ring_load.h"
#include "runtime/check.h"
#include "runtime/log/log.h"

namespace dafs::fuse {
namespace {

// Requests taken in one turn of the loop, so that replies of the server do not wait long.
constexpr int kTakenAtOnce = 32;
// A multiple of a cache line, large enough for a header.
constexpr size_t kHeaderStride = 320;
static_assert(kHeaderStride >= sizeof(UringReqHeader) && kHeaderStride % 64 == 0);

}  // namespace

// --- Entries ---------------------------------------------------------------------------------

// The headers and payloads of some entries. The addresses are reserved at once; the memory is
// allocated when an entry is used.
struct KernelRing::Memory {
  explicit Memory(size_t bytes_in) : bytes(bytes_in) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) start = static_cast<std::byte*>(at);
  }
  ~Memory() {
    if (start != nullptr) munmap(start, bytes);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  const size_t bytes;
  std::byte* start = nullptr;
};

class KernelRing::Entry final : public AnswerPath {
 public:
  Entry(KernelRing& ring, Queue& queue, std::byte* header, std::span<std::byte> payload)
      : ring_(ring),
        queue(queue),
        header(reinterpret_cast<UringReqHeader*>(header)),
        payload(payload),
        buffers{{header, sizeof(UringReqHeader)}, {payload.data(), payload.size()}} {}

  bool Reply(uint64_t unique, std::initializer_list<Bytes> parts) override {
    return ring_.Answer(*this, unique, 0, parts);
  }
  bool ReplyError(uint64_t unique, int error) override {
    return ring_.Answer(*this, unique, error, {});
  }

 private:
  KernelRing& ring_;

 public:
  Queue& queue;
  UringReqHeader* const header;
  const std::span<std::byte> payload;
  const iovec buffers[2];  // the kernel reads them when the entry is registered
  bool held = false;       // it has a request that is not answered
  bool gone = false;       // the kernel has released it
};

struct KernelRing::Queue {
  uint16_t number = 0;
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<std::unique_ptr<Entry>> entries;
  RingLoad load;
};

// Returns false if there is no memory.
bool KernelRing::Grow(Queue& queue, size_t count) {
  const size_t headers = (count * kHeaderStride + 4095) / 4096 * 4096;
  auto memory = std::make_unique<Memory>(headers + count * plan_.payload_bytes);
  if (memory->start == nullptr) return false;
  std::byte* payload = memory->start + headers;
  for (size_t i = 0; i < count; ++i, payload += plan_.payload_bytes) {
    queue.entries.push_back(std::make_unique<Entry>(*this, queue, memory->start + i * kHeaderStride,
                                                    std::span(payload, plan_.payload_bytes)));
    Submit(*queue.entries.back(), kUringRegister, 0);
  }
  queue.load.Add(count);
  queue.memory.push_back(std::move(memory));
  Flush();
  return true;
}

// --- Making and ending it --------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<KernelRing>> KernelRing::Create(const RingPlan& plan,
                                                               uint32_t worker) {
  std::unique_ptr<KernelRing> made(new KernelRing(plan));
  for (uint16_t number : plan.QueuesOf(worker)) {
    made->queues_.push_back(std::make_unique<Queue>());
    made->queues_.back()->number = number;
  }
  io_uring_params params = {};
  // The kernel must run in our context to fill an entry. With these flags it does so during the
  // next system call. If the worker sleeps, that is its epoll_wait, so that a request costs no
  // system call of its own. (With DEFER_TASKRUN the kernel would wait for io_uring_enter, and would
  // not wake an epoll.)
  params.flags = IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN |
                 IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CLAMP;
  const auto room = static_cast<unsigned>(made->queues_.size() * plan.entries);
  const int error = io_uring_queue_init_params(room, &made->ring_, &params);
  if (error < 0) return absl::ErrnoToStatus(-error, "io_uring_setup");
  made->open_ = true;
  return made;
}

KernelRing::KernelRing(const RingPlan& plan) : plan_(plan) {}

KernelRing::~KernelRing() {
  Stop();
  if (open_) io_uring_queue_exit(&ring_);
}

absl::Status KernelRing::Start(int device, Loop& loop, Handler handler, Kick kick) {
  device_ = device;
  loop_ = &loop;
  handler_ = std::move(handler);
  kick_ = std::move(kick);
  for (auto& queue : queues_) {
    if (!Grow(*queue, plan_.entries)) refused_ = absl::ResourceExhaustedError("no memory");
  }
  // The kernel reports a refusal at once.
  while (refused_.ok() && TakeOne()) {
  }
  if (refused_.ok()) {
    loop.Add(this);
  } else {
    loop_ = nullptr;
  }
  return refused_;
}

void KernelRing::Stop() {
  if (loop_ == nullptr) return;
  loop_->Cancel(starving_timer_);
  loop_->Remove(this);
  loop_ = nullptr;
}

// --- To the kernel ---------------------------------------------------------------------------

void KernelRing::Submit(Entry& entry, uint32_t command, uint64_t commit_id) {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  if (sqe == nullptr) {
    Flush();
    sqe = io_uring_get_sqe(&ring_);
  }
  DAFS_CHECK(sqe != nullptr, "a submission queue that was just emptied is full");
  std::memset(sqe, 0, 2 * sizeof(io_uring_sqe));
  sqe->opcode = IORING_OP_URING_CMD;
  sqe->fd = device_;
  sqe->cmd_op = command;
  sqe->user_data = reinterpret_cast<uint64_t>(&entry);
  if (command == kUringRegister) {
    sqe->addr = reinterpret_cast<uint64_t>(entry.buffers);
    sqe->len = 2;
  }
  const UringCmdReq request = {
      .flags = 0, .commit_id = commit_id, .qid = entry.queue.number, .padding = {}};
  std::memcpy(sqe->cmd, &request, sizeof(request));
  if (unsubmitted_++ == 0 && loop_ != nullptr) loop_->RequestPoll(this);
}

// Submits the answers, and lets the kernel put waiting requests into the entries. This is one
// system call for both, and none if there is neither.
void KernelRing::Flush() {
  const bool work = (std::atomic_ref(*ring_.sq.kflags).load(std::memory_order_relaxed) &
                     (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
  if (unsubmitted_ == 0 && !work) return;
  unsubmitted_ = 0;
  io_uring_submit_and_get_events(&ring_);
}

bool KernelRing::Answer(Entry& entry, uint64_t unique, int error,
                        std::initializer_list<AnswerPath::Bytes> parts) {
  DAFS_CHECK(entry.held, "a request of an io_uring is answered twice");
  size_t size = 0;
  for (AnswerPath::Bytes part : parts) {
    if (part.size() > entry.payload.size() - size) {
      error = EIO;
      break;
    }
    if (!part.empty()) std::memcpy(entry.payload.data() + size, part.data(), part.size());
    size += part.size();
  }
  if (error != 0) size = 0;
  const fuse_out_header header = {.len = static_cast<uint32_t>(sizeof(fuse_out_header) + size),
                                  .error = -error,
                                  .unique = unique};
  std::memcpy(entry.header->in_out, &header, sizeof(header));
  entry.header->ring_ent_in_out.payload_sz = static_cast<uint32_t>(size);
  entry.held = false;
  entry.queue.load.Answer();
  Submit(entry, kUringCommitAndFetch, unique);
  if (loop_ == nullptr) Flush();
  return true;
}

// --- From the kernel -------------------------------------------------------------------------

bool KernelRing::Poll() {
  Flush();
  bool any = false;
  for (int i = 0; i < kTakenAtOnce && TakeOne(); ++i) any = true;
  return any;
}

bool KernelRing::TakeOne() {
  io_uring_cqe* cqe = nullptr;
  if (io_uring_cq_ready(&ring_) == 0 || io_uring_peek_cqe(&ring_, &cqe) != 0) return false;
  auto* entry = static_cast<Entry*>(io_uring_cqe_get_data(cqe));
  const int result = cqe->res;
  io_uring_cqe_seen(&ring_, cqe);
  Complete(*entry, result);
  return true;
}

void KernelRing::Complete(Entry& entry, int result) {
  if (result < 0) {
    // Either the mount has ended (ENOTCONN, ECONNABORTED), which /dev/fuse reports too, or the
    // kernel did not accept the entry.
    entry.gone = true;
    entry.queue.load.Release();
    if (result != -ENOTCONN && result != -ECONNABORTED) {
      refused_ = absl::ErrnoToStatus(-result, "the kernel does not take the buffers");
    }
    return;
  }
  if (entry.held) {
    LogError(plan_.name +
             ": the kernel sent a request by io_uring before the one in its place was answered; it "
             "is not answered; mount with io_uring=off");
    return;
  }
  entry.held = true;
  if (entry.queue.load.Take()) WatchForStarving();
  std::optional<RingRequest> request = ParseRingRequest(*entry.header, entry.payload);
  if (!request.has_value()) {
    LogError(plan_.name + ": the kernel sent a malformed request by io_uring, with " +
             std::to_string(entry.header->ring_ent_in_out.payload_sz) +
             " bytes of payload; it fails with EIO");
    Answer(entry, entry.header->ring_ent_in_out.commit_id, EIO, {});
    return;
  }
  handler_(*request, entry);
}

WaitHandle KernelRing::Arm() {
  Flush();
  if (io_uring_cq_ready(&ring_) != 0) return {.fd = -1, .events = 0};
  return {.fd = ring_.ring_fd, .events = EPOLLIN};
}

// --- Queues that starve ----------------------------------------------------------------------

void KernelRing::WatchForStarving() {
  if (starving_timer_ != 0 || loop_ == nullptr) return;
  for (auto& queue : queues_) queue->load.Watch();
  starving_timer_ = loop_->RunAfter(kStarvesAfter, [this] { LookForStarving(); });
}

void KernelRing::LookForStarving() {
  starving_timer_ = 0;
  bool again = false;
  for (auto& queue : queues_) {
    RingLoad& load = queue->load;
    if (load.full()) again = true;
    const size_t more = load.Check();
    if (more > 0 && Grow(*queue, more)) load.Grew(more);
    if (load.unkicked() > 0 && kick_(queue->number, load.unkicked(), HeldNodes(*queue))) {
      load.Kicked();
    }
    if (load.unkicked() > 0) again = true;
  }
  if (again) WatchForStarving();
}

// The nodes of the requests that are not answered, those of `first` before others.
std::vector<uint64_t> KernelRing::HeldNodes(const Queue& first) const {
  std::vector<uint64_t> nodes;
  auto take = [&nodes](const Queue& queue) {
    for (const auto& entry : queue.entries) {
      if (!entry->held) continue;
      fuse_in_header header;
      std::memcpy(&header, entry->header->in_out, sizeof(header));
      if (std::find(nodes.begin(), nodes.end(), header.nodeid) == nodes.end()) {
        nodes.push_back(header.nodeid);
      }
    }
  };
  take(first);
  for (const auto& queue : queues_) {
    if (queue.get() != &first) take(*queue);
  }
  return nodes;
}

}  // namespace dafs::fuse
