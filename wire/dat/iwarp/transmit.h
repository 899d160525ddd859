// The sending half of an iwarp endpoint. It turns posted sends, RDMA operations and the peer's RDMA
// reads into FPDUs. One sendmsg sends many of them, directly from registered memory.
// Spec: RFC 5041, 5.2 (segmentation); RFC 5040, 5 (messages), 5.5 (ordering); RFC 5044, 4;
// WIRE 11.6 (FPDU size). Belongs to its endpoint; not thread-safe; never blocks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "wire/dat/dat.h"
#include "wire/dat/iwarp/byte_stream.h"
#include "wire/dat/iwarp/completions.h"
#include "wire/dat/iwarp/ddp.h"
#include "wire/dat/iwarp/domain.h"
#include "wire/dat/iwarp/fpdu_batch.h"
#include "wire/dat/iwarp/ring.h"

namespace dafs::dat::iwarp {

// The peer's RDMA reads that may wait here for their responses (IRD), at most.
inline constexpr uint32_t kMaxInboundReads = 128;

// The connection's options after the handshake.
struct StreamOptions {
  ByteStream stream;
  bool crc = false;
  size_t max_ulpdu_bytes = 0;
  uint32_t max_rdma_reads = 0;       // ORD
  bool wait_for_first_fpdu = false;  // RFC 5044, 7.1.2: the responder speaks second
};

class Transmit {
 public:
  Transmit(const EndpointOptions& options, IwarpDomain& domain, CompletionQueue& completions);

  void Start(const StreamOptions& options);
  // Call when the peer's first FPDU has arrived.
  void ReleaseHold() { held_ = false; }

  // Queue work that the endpoint has checked and counted. A read becomes one read request for each
  // segment.
  void PostSend(uint64_t cookie, std::span<const Segment> from,
                const Endpoint::SendOptions& options);
  void PostRdmaWrite(uint64_t cookie, std::span<const Segment> from, RemoteBuffer to,
                     bool signaled);
  void PostRdmaRead(uint64_t cookie, std::span<const Segment> into, RemoteBuffer from);

  // Queues the response to a checked read request. Returns false if the peer has too many in
  // flight.
  bool PushResponse(const ReadRequest& request);

  // One read request in flight, and the local memory that its response fills.
  struct ReadInFlight {
    uint32_t work = 0;
    uint32_t sink_stag = 0;
    uint64_t sink_to = 0;
    std::byte* at = nullptr;
    uint32_t size_bytes = 0;
    uint32_t received_bytes = 0;
    bool last_of_work = false;
  };
  // The read whose response comes next; nullptr if there is none.
  ReadInFlight* HeadRead() { return reads_.empty() ? nullptr : &reads_.front(); }
  // Call when the head read has all its data.
  void FinishHeadRead();

  // Sends until no work is left, the socket is full, or the work reaches a bound (has_work() is
  // then still true). An error means that the connection is lost.
  absl::Status Flush();
  // Bytes of posted work not yet sent, without read responses.
  uint64_t queued_bytes() const { return queued_bytes_; }
  // Whether a call of Flush could send something now.
  bool has_work() const { return !held_ && !blocked_ && CanSend(); }
  // Whether the socket was full at the last Flush, or when TLS replied to the peer.
  bool blocked() const { return blocked_ || options_.stream.has_output(); }
  // Whether nothing is queued or partly sent, and no read is in flight.
  bool drained() const;
  // Whether the source region of a partly sent read response was deregistered.
  bool lost_source() const { return lost_source_; }

  // Sends a Terminate as the last message. This works only between two FPDUs, and if the socket
  // accepts it. Returns whether it was sent.
  bool SendTerminate(const Terminate& terminate);

  // Reports all unfinished work, in the order posted, as failed with `why`.
  void FailAll(const absl::Status& why);

  // Whether FPDUs not yet sent refer to `memory`.
  bool RefersTo(std::span<const std::byte> memory) const { return batch_.RefersTo(memory); }

 private:
  enum class WorkKind : uint8_t { kSend, kWrite, kRead };
  struct Work {
    bool active = false;
    WorkKind kind = WorkKind::kSend;
    bool signaled = true;
    Opcode opcode = Opcode::kSend;
    uint32_t invalidate_stag = 0;
    uint32_t segment_count = 0;
    uint32_t next_segment = 0;  // of a read: the next segment to request
    uint64_t cookie = 0;
    uint64_t sequence = 0;
    uint64_t total_bytes = 0;
    uint64_t requested_bytes = 0;  // of a read
    RemoteBuffer remote;
  };
  // The message that is being cut into FPDUs.
  enum class MessageKind : uint8_t { kNone, kWork, kResponse };
  struct Message {
    MessageKind kind = MessageKind::kNone;
    uint32_t work = 0;
    uint64_t offset = 0;
    uint32_t segment = 0;
    uint32_t segment_offset = 0;
  };

  uint32_t NewWork(WorkKind kind, uint64_t cookie, std::span<const Segment> segments);
  std::span<const Segment> SegmentsOf(uint32_t work) const;
  bool CanSend() const;
  bool FillBatch();
  bool PickMessage();
  void AddReadRequest();
  bool AddMessageFpdu();
  size_t AddWorkPayload(size_t limit);
  bool FindSource(size_t size, std::byte** source);
  size_t PayloadLimit(bool tagged) const;
  bool SendBatch(absl::Status* error);
  void FinishWork(uint32_t work, absl::Status status);

  IwarpDomain& domain_;
  CompletionQueue& completions_;
  StreamOptions options_;
  bool held_ = true;
  bool blocked_ = false;
  bool lost_source_ = false;
  bool response_turn_ = true;  // responses and our own work alternate, message by message

  const uint32_t max_segments_;
  std::vector<Work> work_;
  std::vector<Segment> segments_;  // max_segments_ entries for each entry of work_
  std::vector<uint32_t> free_work_;
  uint64_t next_sequence_ = 0;
  uint64_t queued_bytes_ = 0;

  Ring<uint32_t> queue_;          // posted, not yet started
  Ring<uint32_t> waiting_reads_;  // reads with segments still to request
  Ring<ReadInFlight> reads_;
  Ring<ReadRequest> responses_;
  Message message_;
  std::array<uint32_t, kQueueCount> next_msn_ = {1, 1, 1};
  FpduBatch batch_;
};

}  // namespace dafs::dat::iwarp
