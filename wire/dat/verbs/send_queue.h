// The send queue of a queue pair: sends, RDMA writes and RDMA reads as the caller posted them, cut
// into the work requests the device accepts, signaled as seldom as is safe, reported once each.
//
//   operation   what the caller posted: one completion at most
//   request     what the device gets: one or several per operation (a scatter list longer than the
//               device's, more bytes than its largest message)
//
// Sends and writes go out in the order posted. Reads beyond the limit wait here and let later sends
// and writes pass. A request occupies its place in the device's queue until a signaled request
// posted at or after it has completed; so every half queue one is signaled, and what the device
// would not copy otherwise. A read is over by its
// own completion only: siw reports sends that were posted behind a read before the read's data is
// there, where InfiniBand (10.8.5) keeps the order.
//
// Requests are handed to the device in a chain: what has more behind it waits here for that, in its
// place of the queue, so that both are one call of ibv_post_send, which on siw and rxe is a system
// call, and leave in one packet where they fit. Ring hands over what waits.
// Spec: appendix B (ordering), E.7 (solicited event bit always 0). One thread. Internal.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "wire/dat/dat.h"
#include "wire/dat/verbs/ready.h"

namespace dafs::dat::verbs {

struct SendQueueLimits {
  uint32_t max_operations = 1;  // posted and not completed
  uint32_t max_requests = 1;    // in the device's queue; >= max_reads + 2
  uint32_t max_reads = 1;       // read requests in flight
  uint32_t max_segments = 1;    // of one operation
  uint32_t max_request_segments = 1;
  uint32_t max_read_segments = 1;  // of one read request
  uint64_t max_request_bytes = 1;
  uint32_t inline_bytes = 0;
  // Requests of so many bytes or more are always signaled: DeviceLimits::signal_bytes.
  uint64_t signal_bytes = ~uint64_t{0};
};

class SendQueue {
 public:
  // `ready` receives the completions and outlives this.
  SendQueue(const SendQueueLimits& limits, ReadyList& ready);

  // Before the first post. `queue_pair` lives until Abandon.
  void Attach(ibv_qp* queue_pair) { queue_pair_ = queue_pair; }
  const SendQueueLimits& limits() const { return limits_; }
  // The peer takes fewer reads at once than the device can start; 0: none. Before the first post.
  void LimitReads(uint32_t max_reads) {
    limits_.max_reads = std::min(limits_.max_reads, max_reads);
  }

  struct Operation {
    Event event = Event::kSend;
    uint64_t cookie = 0;
    bool signaled = true;
    bool more = false;  // waits for what is submitted next, or for Ring
    // Of a send: the peer's to invalidate. Of kInvalidated: our own.
    std::optional<uint32_t> invalidate_context;
    RemoteBuffer remote;
    // Binds a window instead; of kInvalidated.
    ibv_mw* window = nullptr;
    uint32_t window_key = 0;
    ibv_mw_bind_info bind = {};
  };
  // `segments` are of one domain and checked against their regions. kResourceExhausted: the queue
  // is full. kFailedPrecondition: the peer takes no reads. kUnavailable: the device refused the
  // request or one that waited, so the connection must end; Abandon reports those that waited.
  absl::Status Submit(const Operation& operation, std::span<const ibv_sge> segments);

  // A send completion of the device: retires `request`, and all before it but reads.
  void Complete(uint64_t request, const absl::Status& status);
  // Hands waiting operations to the device where there is room now.
  absl::Status Pump();
  // Hands over what waits for more. kUnavailable as of Submit.
  absl::Status Ring();
  // Hands it over too, and makes sure that all of it will be retired by a completion.
  absl::Status Flush();
  // Makes sure that the device is waiting for the peer: posts an RDMA write of nothing if there is
  // nothing else.
  absl::Status Probe();
  // Nothing is posted, waiting or unreported.
  bool idle() const { return free_.size() == operations_.size() && head_ == tail_; }
  // Reports every operation left with `status`, in the order posted. The device uses no buffer any
  // more: the queue pair is gone.
  void Abandon(const absl::Status& status);

  // Work request ids of sends and receives share the completion queue.
  static constexpr uint64_t kReceiveBit = uint64_t{1} << 63;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};  // a request of no operation: a flush
  // A chain is handed over when it has so many requests, or so many bytes: what moves them could be
  // doing so.
  static constexpr size_t kMostChained = 16;
  static constexpr uint64_t kHoldBackBytes = 64 << 10;

  struct Slot {
    Operation operation;
    uint64_t order = 0;  // of posting
    uint32_t segment_count = 0;
    uint32_t next_segment = 0;  // first segment not handed over whole
    uint32_t next_offset = 0;   // bytes of it that are handed over
    uint64_t bytes_posted = 0;
    bool used = false;
    bool posted_all = false;
    absl::Status status;
  };
  struct Request {
    uint32_t slot = kNone;
    bool last = false;  // of its operation
    bool read = false;
    bool signaled = false;
    bool retired = false;
  };

  Request& At(uint64_t request) { return requests_[request % requests_.size()]; }
  void Retire(uint64_t request, const absl::Status& status);
  std::span<ibv_sge> SegmentsOf(uint32_t slot);
  bool HasRoom() const { return tail_ - head_ < limits_.max_requests - 1; }  // 1 kept for Flush
  bool RoomForRead() const { return HasRoom() && reads_in_flight_ < limits_.max_reads; }
  absl::Status PostNext(uint32_t slot);
  std::span<ibv_sge> NextChainSegments();
  absl::Status Post(const ibv_send_wr& request, uint64_t bytes, Request entry);
  absl::Status PostNothing();
  void Release(uint32_t slot);
  void Report(uint32_t slot, const absl::Status& status);

  SendQueueLimits limits_;
  ReadyList& ready_;
  ibv_qp* queue_pair_ = nullptr;

  std::vector<Slot> operations_;
  std::vector<ibv_sge> segments_;  // max_segments for each operation
  std::vector<uint32_t> free_;     // slots
  std::deque<uint32_t> ordered_;   // sends and writes with requests to hand over
  std::deque<uint32_t> reads_;     // reads with requests to hand over
  uint64_t next_order_ = 0;

  std::vector<Request> requests_;  // ring: in the device's queue, or chain_, from head_ to tail_
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  uint64_t swept_ = 0;       // before it only reads are left
  uint32_t unsignaled_ = 0;  // since the last signaled request
  uint32_t reads_in_flight_ = 0;
  std::vector<ibv_send_wr> chain_;       // the last requests before tail_; never grows
  std::vector<ibv_sge> chain_segments_;  // as many for each as a request has at most
  uint64_t chain_bytes_ = 0;
};

}  // namespace dafs::dat::verbs
