// The receiving half of an iwarp endpoint. It reads FPDUs and checks each header against posted
// receives, registered memory and reads in flight. Only then does it place the payload; recv writes
// a long payload directly to its target.
// Spec: RFC 5041, 5.3 and 7 (placement, checks); RFC 5040, 5 to 7; RFC 5044, 4 and 6; WIRE 11.6.
// Belongs to its endpoint; not thread-safe; never blocks.
//
// With CRC32C an FPDU may be placed only after a check of its CRC (RFC 5044, 6.1), so the whole
// FPDU passes through the staging buffer.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "wire/dat/dat.h"
#include "wire/dat/iwarp/completions.h"
#include "wire/dat/iwarp/ddp.h"
#include "wire/dat/iwarp/domain.h"
#include "wire/dat/iwarp/ring.h"
#include "wire/dat/iwarp/transmit.h"

namespace dafs::dat::iwarp {

// Why the stream must end, and the content of a Terminate about it.
struct StreamFault {
  FaultCode code;
  bool by_terminate = false;  // the peer sent the Terminate: do not reply
  std::array<std::byte, kMaxHeaderBytes> ddp_header = {};
  size_t ddp_header_bytes = 0;  // 0: unknown, or must not be repeated
  uint16_t ddp_segment_bytes = 0;
  std::array<std::byte, kReadRequestBytes> rdma_header = {};
  size_t rdma_header_bytes = 0;
};

// The fault code of a refused write, for a Terminate.
FaultCode ToTaggedFault(IwarpDomain::Verdict verdict);

class Receive {
 public:
  Receive(const EndpointOptions& options, IwarpDomain& domain, CompletionQueue& completions,
          Transmit& transmit);

  void Start(const StreamOptions& options);
  // The endpoint must have checked and counted the receive.
  void Post(uint64_t cookie, const Segment& into) { receives_.push_back({cookie, into}); }

  enum class Outcome : uint8_t {
    kIdle,    // did all work there was, or a fair share of it
    kClosed,  // the peer closed between two messages
    kLost,    // the connection is lost: lost_status()
    kFault,   // the peer broke the protocol, or reports that we did: fault()
  };
  // Reads and places the available data. Returns early after receives complete, so that the caller
  // can report them.
  Outcome Run();
  const StreamFault& fault() const { return fault_; }
  const absl::Status& lost_status() const { return lost_status_; }

  // Reports all posted receives as failed with `why`.
  void FailAll(const absl::Status& why);

 private:
  struct PostedReceive {
    uint64_t cookie = 0;
    Segment into;
  };
  enum class Stage : uint8_t { kHeader, kPayload, kTrailer };

  bool ConsumeStaged(bool* fault);
  bool BeginFpdu(bool* fault);
  std::optional<FaultCode> CheckSegment(std::span<const std::byte> staged_payload);
  std::optional<FaultCode> CheckSend();
  std::optional<FaultCode> CheckReadRequest(std::span<const std::byte> payload);
  std::optional<FaultCode> CheckTerminate(std::span<const std::byte> payload);
  std::optional<FaultCode> CheckReadResponse();
  std::optional<FaultCode> FinishSegment();
  std::byte* Target(size_t size);
  void Placed(size_t size);
  void SetFault(FaultCode code, std::span<const std::byte> ulpdu);
  bool ReceiveMore(Outcome* end);
  size_t StagingBound() const;
  bool InMessage() const;

  IwarpDomain& domain_;
  CompletionQueue& completions_;
  Transmit& transmit_;
  ByteStream stream_;
  bool crc_ = false;

  Ring<PostedReceive> receives_;
  std::array<uint32_t, kQueueCount> next_msn_ = {1, 1, 1};
  uint32_t message_bytes_ = 0;  // received bytes of the current Send
  Opcode message_opcode_ = Opcode::kSend;
  bool tagged_open_ = false;  // a tagged message has more segments to come

  Stage stage_ = Stage::kHeader;
  SegmentHeader header_;  // of the current FPDU
  size_t ulpdu_bytes_ = 0;
  size_t payload_left_ = 0;
  size_t payload_done_ = 0;
  size_t trailer_left_ = 0;
  bool small_fpdus_ = false;  // the peer sends long messages in short FPDUs

  std::unique_ptr<std::byte[]> staging_;
  size_t staging_bytes_ = 0;
  size_t begin_ = 0;  // staged, not yet consumed: [begin_, end_)
  size_t end_ = 0;
  bool socket_empty_ = false;

  StreamFault fault_;
  absl::Status lost_status_;
};

}  // namespace dafs::dat::iwarp
