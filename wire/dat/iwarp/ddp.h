// The headers of DDP segments and the RDMAP messages in them.
// Spec: RFC 5041, 4 (DDP headers); RFC 5040, 4 (RDMAP control, Read Request, Terminate); WIRE 11.6.
// Pure: no sockets, no allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace dafs::dat::iwarp {

enum class Opcode : uint8_t {  // RFC 5040, 4.3
  kRdmaWrite = 0,
  kReadRequest = 1,
  kReadResponse = 2,
  kSend = 3,
  kSendInvalidate = 4,
  kSendSolicited = 5,
  kSendSolicitedInvalidate = 6,
  kTerminate = 7,
};
constexpr bool IsSend(Opcode opcode) {
  return opcode >= Opcode::kSend && opcode <= Opcode::kSendSolicitedInvalidate;
}
constexpr bool Invalidates(Opcode opcode) {
  return opcode == Opcode::kSendInvalidate || opcode == Opcode::kSendSolicitedInvalidate;
}
constexpr bool IsTagged(Opcode opcode) {
  return opcode == Opcode::kRdmaWrite || opcode == Opcode::kReadResponse;
}

// Untagged queues (RFC 5040, 4.1).
inline constexpr uint32_t kSendQueue = 0;
inline constexpr uint32_t kReadRequestQueue = 1;
inline constexpr uint32_t kTerminateQueue = 2;
inline constexpr uint32_t kQueueCount = 3;
constexpr uint32_t QueueOf(Opcode opcode) {
  if (opcode == Opcode::kReadRequest) return kReadRequestQueue;
  return opcode == Opcode::kTerminate ? kTerminateQueue : kSendQueue;
}

inline constexpr size_t kTaggedHeaderBytes = 14;
inline constexpr size_t kUntaggedHeaderBytes = 18;
inline constexpr size_t kMaxHeaderBytes = kUntaggedHeaderBytes;
constexpr size_t HeaderBytes(bool tagged) {
  return tagged ? kTaggedHeaderBytes : kUntaggedHeaderBytes;
}

// DDP header with RDMAP control: the first bytes of a ULPDU.
struct SegmentHeader {
  bool tagged = false;
  bool last = false;
  Opcode opcode = Opcode::kSend;
  uint32_t stag = 0;  // tagged: of the target; untagged: to invalidate, or zero
  uint64_t to = 0;    // tagged: target address
  uint32_t qn = 0;    // untagged: queue
  uint32_t msn = 0;   // untagged: message in the queue, from 1
  uint32_t mo = 0;    // untagged: offset in the message
  size_t size_bytes() const { return HeaderBytes(tagged); }
  friend bool operator==(const SegmentHeader&, const SegmentHeader&) = default;
};

// Whether a ULPDU that begins with `control` is tagged (bit T). This decides the header's length.
constexpr bool TaggedBit(std::byte control) { return (control & std::byte{0x80}) != std::byte{0}; }

// Writes `header.size_bytes()` bytes.
void EncodeSegmentHeader(const SegmentHeader& header, std::byte* to);

// Layer, type and code of a fault, as in a Terminate (RFC 5040, 4.8; RFC 5041, 8.2).
enum class Layer : uint8_t { kRdmap = 0, kDdp = 1, kLlp = 2 };
struct FaultCode {
  Layer layer = Layer::kRdmap;
  uint8_t type = 0;
  uint8_t code = 0;
  friend bool operator==(const FaultCode&, const FaultCode&) = default;
};
namespace fault {
inline constexpr FaultCode kLocalCatastrophic{Layer::kRdmap, 0, 0};
inline constexpr FaultCode kReadInvalidStag{Layer::kRdmap, 1, 0x00};
inline constexpr FaultCode kReadBounds{Layer::kRdmap, 1, 0x01};
inline constexpr FaultCode kAccessRights{Layer::kRdmap, 1, 0x02};
inline constexpr FaultCode kReadToWrap{Layer::kRdmap, 1, 0x04};
inline constexpr FaultCode kRdmapVersion{Layer::kRdmap, 2, 0x05};
inline constexpr FaultCode kUnexpectedOpcode{Layer::kRdmap, 2, 0x06};
inline constexpr FaultCode kStreamCatastrophic{Layer::kRdmap, 2, 0x07};
inline constexpr FaultCode kCannotInvalidate{Layer::kRdmap, 2, 0x09};
inline constexpr FaultCode kDdpCatastrophic{Layer::kDdp, 0, 0};
inline constexpr FaultCode kInvalidStag{Layer::kDdp, 1, 0x00};
inline constexpr FaultCode kBounds{Layer::kDdp, 1, 0x01};
inline constexpr FaultCode kToWrap{Layer::kDdp, 1, 0x03};
inline constexpr FaultCode kTaggedVersion{Layer::kDdp, 1, 0x04};
inline constexpr FaultCode kInvalidQueue{Layer::kDdp, 2, 0x01};
inline constexpr FaultCode kNoBuffer{Layer::kDdp, 2, 0x02};
inline constexpr FaultCode kMsnRange{Layer::kDdp, 2, 0x03};
inline constexpr FaultCode kInvalidMo{Layer::kDdp, 2, 0x04};
inline constexpr FaultCode kMessageTooLong{Layer::kDdp, 2, 0x05};
inline constexpr FaultCode kUntaggedVersion{Layer::kDdp, 2, 0x06};
inline constexpr FaultCode kCrc{Layer::kLlp, 0, 0x02};
}  // namespace fault
// For example "DDP: tagged buffer: invalid STag".
std::string Describe(const FaultCode& code);

// Reads the header of a ULPDU. Checks the versions, the opcode, that the opcode fits a tagged or
// untagged message and its queue, and the minimum length. `ulpdu` may be truncated after the
// header; `ulpdu_bytes` is the whole length. Returns the fault, if any; `header` then holds the
// fields read so far.
std::optional<FaultCode> DecodeSegmentHeader(std::span<const std::byte> ulpdu, size_t ulpdu_bytes,
                                             SegmentHeader* header);

// RFC 5040, 4.4: the payload of an RDMA Read Request.
struct ReadRequest {
  uint32_t sink_stag = 0;
  uint64_t sink_to = 0;
  uint32_t size_bytes = 0;
  uint32_t source_stag = 0;
  uint64_t source_to = 0;
  friend bool operator==(const ReadRequest&, const ReadRequest&) = default;
};
inline constexpr size_t kReadRequestBytes = 28;
void EncodeReadRequest(const ReadRequest& request, std::byte* to);
ReadRequest DecodeReadRequest(std::span<const std::byte, kReadRequestBytes> from);

// RFC 5040, 4.8: the payload of a Terminate. The known part of the offending segment follows the
// code.
struct Terminate {
  FaultCode code;
  // The DDP header of the offending segment (empty: none), with the length of that segment.
  std::span<const std::byte> ddp_header;
  uint16_t ddp_segment_bytes = 0;
  // The Read Request of the offending segment (empty: none).
  std::span<const std::byte> rdma_header;
};
inline constexpr size_t kMaxTerminateBytes = 4 + 2 + kUntaggedHeaderBytes + kReadRequestBytes;
// Writes at most kMaxTerminateBytes and returns the number of bytes written.
size_t EncodeTerminate(const Terminate& terminate, std::byte* to);
// Returns nullopt if `from` is shorter than the control word. The result's spans point into `from`.
std::optional<Terminate> DecodeTerminate(std::span<const std::byte> from);

}  // namespace dafs::dat::iwarp
