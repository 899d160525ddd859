// The send queue of a queue pair. It takes sends, RDMA writes and RDMA reads as the caller posts
// them, and cuts them into work requests that the device accepts. It signals as seldom as is safe,
// and reports each operation once.
//
//   operation   posted by the caller: one completion at most
//   request     posted to the device: one or several per operation, if the scatter list or the
//               message is longer than the device allows
//
// Order: sends and writes go to the device in the order posted. Reads beyond the limit wait here,
// and later sends and writes overtake them.
//
// Signaling: a request occupies its place in the device's queue until a signaled request posted at
// or after it has completed. So one request in every half queue is signaled. So is a request of
// signal_bytes or more: siw copies its data only then, and otherwise sends it from the caller's
// buffer. So is each read: only a read's own completion ends it. siw reports a send posted after a
// read before the read's data has arrived, although InfiniBand (10.8.5) keeps the order.
//
// Chaining: a request with `more` waits here, in its place of the queue, for the next one. One call
// of ibv_post_send then posts both; on siw and rxe that is a system call. They leave in one packet
// if they fit. Ring posts the waiting requests.
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
  // Requests of this many bytes or more are always signaled: DeviceLimits::signal_bytes.
  uint64_t signal_bytes = ~uint64_t{0};
};

class SendQueue {
 public:
  // `ready` receives the completions and must outlive the queue.
  SendQueue(const SendQueueLimits& limits, ReadyList& ready);

  // Call before the first post. `queue_pair` must live until Abandon.
  void Attach(ibv_qp* queue_pair) { queue_pair_ = queue_pair; }
  const SendQueueLimits& limits() const { return limits_; }
  // Lowers the limit of reads in flight to what the peer accepts; 0: none. Call before the first
  // post.
  void LimitReads(uint32_t max_reads) {
    limits_.max_reads = std::min(limits_.max_reads, max_reads);
  }

  struct Operation {
    Event event = Event::kSend;
    uint64_t cookie = 0;
    bool signaled = true;
    bool more = false;  // waits for the next Submit, or for Ring
    // For a send, the peer's context to invalidate. For kInvalidated, our own.
    std::optional<uint32_t> invalidate_context;
    RemoteBuffer remote;
    // With kInvalidated: bind this window instead.
    ibv_mw* window = nullptr;
    uint32_t window_key = 0;
    ibv_mw_bind_info bind = {};
  };
  // `segments` belong to one domain; the caller has checked them against their regions. Errors:
  // kResourceExhausted: the queue is full. kFailedPrecondition: the peer accepts no reads.
  // kUnavailable: the device refused this request or one that waited, so the connection must end;
  // Abandon reports those that waited.
  absl::Status Submit(const Operation& operation, std::span<const ibv_sge> segments);

  // Handles a send completion of the device: retires `request` and all earlier requests except
  // reads.
  void Complete(uint64_t request, const absl::Status& status);
  // Posts waiting operations to the device as far as there is room.
  absl::Status Pump();
  // Posts the chain of waiting requests. kUnavailable as for Submit.
  absl::Status Ring();
  // Does the same, and ensures that a completion will retire all of them.
  absl::Status Flush();
  // Ensures that the device has a request that needs the peer's acknowledgement. Posts an empty
  // RDMA write if there is no other request.
  absl::Status Probe();
  // Whether nothing is posted, waiting or unreported.
  bool idle() const { return free_.size() == operations_.size() && head_ == tail_; }
  // Reports every remaining operation with `status`, in the order posted. Call after destroying the
  // queue pair, when the device uses no buffer any more.
  void Abandon(const absl::Status& status);

  // Marks the work request ids of receives, which share the completion queue with sends.
  static constexpr uint64_t kReceiveBit = uint64_t{1} << 63;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};  // a request of no operation: an empty RDMA write
  // A chain is posted when it reaches this many requests, or this many bytes, so that the device
  // can start to move them.
  static constexpr size_t kMostChained = 16;
  static constexpr uint64_t kHoldBackBytes = 64 << 10;

  struct Slot {
    Operation operation;
    uint64_t order = 0;  // the position in the order of posting
    uint32_t segment_count = 0;
    uint32_t next_segment = 0;  // first segment not yet posted completely
    uint32_t next_offset = 0;   // bytes of that segment already posted
    uint64_t bytes_posted = 0;
    bool used = false;
    bool posted_all = false;
    absl::Status status;
  };
  struct Request {
    uint32_t slot = kNone;
    bool last = false;  // the last request of its operation
    bool read = false;
    bool signaled = false;
    bool retired = false;
  };

  Request& At(uint64_t request) { return requests_[request % requests_.size()]; }
  void Retire(uint64_t request, const absl::Status& status);
  std::span<ibv_sge> SegmentsOf(uint32_t slot);
  // Keeps one place for Flush.
  bool HasRoom() const { return tail_ - head_ < limits_.max_requests - 1; }
  bool RoomForRead() const { return HasRoom() && reads_in_flight_ < limits_.max_reads; }
  size_t TakePart(Slot& entry, std::span<const ibv_sge> segments, size_t most_segments,
                  std::span<ibv_sge> part, uint64_t* bytes) const;
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
  std::deque<uint32_t> ordered_;   // sends and writes with requests still to post
  std::deque<uint32_t> reads_;     // reads with requests still to post
  uint64_t next_order_ = 0;

  std::vector<Request> requests_;  // ring: in the device's queue or in chain_, from head_ to tail_
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  uint64_t swept_ = 0;       // before it, only reads are not retired
  uint32_t unsignaled_ = 0;  // since the last signaled request
  uint32_t reads_in_flight_ = 0;
  std::vector<ibv_send_wr> chain_;       // the last requests before tail_; never grows
  std::vector<ibv_sge> chain_segments_;  // for each chained request, as many as a request can have
  uint64_t chain_bytes_ = 0;
};

}  // namespace dafs::dat::verbs
