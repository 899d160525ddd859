#include "wire/dat/iwarp/ddp.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "wire/dat/iwarp/bytes.h"

namespace dafs::dat::iwarp {
namespace {

// Byte 0: T, L, four reserved bits, DDP version. Byte 1: RDMAP version, two reserved bits, opcode.
constexpr unsigned kTaggedBit = 0x80;
constexpr unsigned kLastBit = 0x40;
constexpr unsigned kDdpVersionMask = 0x03;
constexpr unsigned kDdpVersion = 0x01;
constexpr unsigned kRdmapVersionMask = 0xc0;
constexpr unsigned kRdmapVersion = 0x40;
constexpr unsigned kOpcodeMask = 0x0f;

// Header control bits of a Terminate: which parts of the offending segment follow.
constexpr unsigned kSegmentLengthBit = 0x80;
constexpr unsigned kDdpHeaderBit = 0x40;
constexpr unsigned kRdmaHeaderBit = 0x20;
constexpr size_t kTerminateControlBytes = 4;

}  // namespace

void EncodeSegmentHeader(const SegmentHeader& header, std::byte* to) {
  const unsigned control =
      (header.tagged ? kTaggedBit : 0) | (header.last ? kLastBit : 0) | kDdpVersion;
  to[0] = static_cast<std::byte>(control);
  to[1] = static_cast<std::byte>(kRdmapVersion | static_cast<unsigned>(header.opcode));
  PutBig(to + 2, header.stag);
  if (header.tagged) {
    PutBig(to + 6, header.to);
  } else {
    PutBig(to + 6, header.qn);
    PutBig(to + 10, header.msn);
    PutBig(to + 14, header.mo);
  }
}

std::optional<FaultCode> DecodeSegmentHeader(std::span<const std::byte> ulpdu, size_t ulpdu_bytes,
                                             SegmentHeader* header) {
  *header = {};
  if (ulpdu.size() < 2 || ulpdu_bytes < 2) return fault::kDdpCatastrophic;
  const unsigned control = std::to_integer<unsigned>(ulpdu[0]);
  const unsigned rdmap = std::to_integer<unsigned>(ulpdu[1]);
  header->tagged = (control & kTaggedBit) != 0;
  header->last = (control & kLastBit) != 0;
  if ((control & kDdpVersionMask) != kDdpVersion) {
    return header->tagged ? fault::kTaggedVersion : fault::kUntaggedVersion;
  }
  if (ulpdu.size() < header->size_bytes() || ulpdu_bytes < header->size_bytes()) {
    return fault::kDdpCatastrophic;
  }
  header->stag = GetBig<uint32_t>(&ulpdu[2]);
  if (header->tagged) {
    header->to = GetBig<uint64_t>(&ulpdu[6]);
  } else {
    header->qn = GetBig<uint32_t>(&ulpdu[6]);
    header->msn = GetBig<uint32_t>(&ulpdu[10]);
    header->mo = GetBig<uint32_t>(&ulpdu[14]);
    // DDP checks its queue before RDMAP sees the message (RFC 5041, 7.2).
    if (header->qn >= kQueueCount) return fault::kInvalidQueue;
  }
  if ((rdmap & kRdmapVersionMask) != kRdmapVersion) return fault::kRdmapVersion;
  const unsigned opcode = rdmap & kOpcodeMask;
  if (opcode > static_cast<unsigned>(Opcode::kTerminate)) return fault::kUnexpectedOpcode;
  header->opcode = static_cast<Opcode>(opcode);
  if (IsTagged(header->opcode) != header->tagged) return fault::kUnexpectedOpcode;
  if (!header->tagged && QueueOf(header->opcode) != header->qn) return fault::kUnexpectedOpcode;
  return std::nullopt;
}

void EncodeReadRequest(const ReadRequest& request, std::byte* to) {
  PutBig(to, request.sink_stag);
  PutBig(to + 4, request.sink_to);
  PutBig(to + 12, request.size_bytes);
  PutBig(to + 16, request.source_stag);
  PutBig(to + 20, request.source_to);
}

ReadRequest DecodeReadRequest(std::span<const std::byte, kReadRequestBytes> from) {
  ReadRequest request;
  request.sink_stag = GetBig<uint32_t>(&from[0]);
  request.sink_to = GetBig<uint64_t>(&from[4]);
  request.size_bytes = GetBig<uint32_t>(&from[12]);
  request.source_stag = GetBig<uint32_t>(&from[16]);
  request.source_to = GetBig<uint64_t>(&from[20]);
  return request;
}

size_t EncodeTerminate(const Terminate& terminate, std::byte* to) {
  unsigned parts = 0;
  if (!terminate.ddp_header.empty()) parts |= kSegmentLengthBit | kDdpHeaderBit;
  if (!terminate.rdma_header.empty()) parts |= kRdmaHeaderBit;
  to[0] = static_cast<std::byte>((static_cast<unsigned>(terminate.code.layer) << 4) |
                                 terminate.code.type);
  to[1] = static_cast<std::byte>(terminate.code.code);
  to[2] = static_cast<std::byte>(parts);
  to[3] = std::byte{0};
  size_t size = kTerminateControlBytes;
  if (!terminate.ddp_header.empty()) {
    PutBig(to + size, terminate.ddp_segment_bytes);
    size += 2;
    std::memcpy(to + size, terminate.ddp_header.data(), terminate.ddp_header.size());
    size += terminate.ddp_header.size();
  }
  if (!terminate.rdma_header.empty()) {
    std::memcpy(to + size, terminate.rdma_header.data(), terminate.rdma_header.size());
    size += terminate.rdma_header.size();
  }
  return size;
}

std::optional<Terminate> DecodeTerminate(std::span<const std::byte> from) {
  if (from.size() < kTerminateControlBytes) return std::nullopt;
  Terminate terminate;
  const unsigned first = std::to_integer<unsigned>(from[0]);
  const unsigned parts = std::to_integer<unsigned>(from[2]);
  terminate.code.layer = static_cast<Layer>(first >> 4);
  terminate.code.type = static_cast<uint8_t>(first & 0x0f);
  terminate.code.code = std::to_integer<uint8_t>(from[1]);
  std::span<const std::byte> rest = from.subspan(kTerminateControlBytes);
  if ((parts & kSegmentLengthBit) != 0 && rest.size() >= 2) {
    terminate.ddp_segment_bytes = GetBig<uint16_t>(rest.data());
    rest = rest.subspan(2);
  }
  if ((parts & kDdpHeaderBit) != 0 && !rest.empty()) {
    const size_t size = HeaderBytes(TaggedBit(rest[0]));
    if (rest.size() < size) return terminate;
    terminate.ddp_header = rest.first(size);
    rest = rest.subspan(size);
  }
  if ((parts & kRdmaHeaderBit) != 0 && rest.size() >= kReadRequestBytes) {
    terminate.rdma_header = rest.first(kReadRequestBytes);
  }
  return terminate;
}

std::string Describe(const FaultCode& code) {
  struct Name {
    FaultCode code;
    const char* text;
  };
  static constexpr Name kNames[] = {
      {fault::kLocalCatastrophic, "RDMAP: local catastrophic error"},
      {fault::kReadInvalidStag, "RDMAP: remote protection: invalid STag"},
      {fault::kReadBounds, "RDMAP: remote protection: base or bounds violation"},
      {fault::kAccessRights, "RDMAP: remote protection: access rights violation"},
      {{Layer::kRdmap, 1, 0x03}, "RDMAP: remote protection: STag of another stream"},
      {fault::kReadToWrap, "RDMAP: remote protection: target address wraps"},
      {{Layer::kRdmap, 1, 0x09}, "RDMAP: remote protection: STag cannot be invalidated"},
      {fault::kRdmapVersion, "RDMAP: remote operation: version not supported"},
      {fault::kUnexpectedOpcode, "RDMAP: remote operation: unexpected opcode"},
      {fault::kStreamCatastrophic, "RDMAP: remote operation: catastrophic error of the stream"},
      {fault::kCannotInvalidate, "RDMAP: remote operation: STag cannot be invalidated"},
      {fault::kDdpCatastrophic, "DDP: local catastrophic error"},
      {fault::kInvalidStag, "DDP: tagged buffer: invalid STag"},
      {fault::kBounds, "DDP: tagged buffer: base or bounds violation"},
      {{Layer::kDdp, 1, 0x02}, "DDP: tagged buffer: STag of another stream"},
      {fault::kToWrap, "DDP: tagged buffer: target address wraps"},
      {fault::kTaggedVersion, "DDP: tagged buffer: version not supported"},
      {fault::kInvalidQueue, "DDP: untagged buffer: no such queue"},
      {fault::kNoBuffer, "DDP: untagged buffer: no buffer posted"},
      {fault::kMsnRange, "DDP: untagged buffer: message sequence number out of range"},
      {fault::kInvalidMo, "DDP: untagged buffer: invalid message offset"},
      {fault::kMessageTooLong, "DDP: untagged buffer: message too long for its buffer"},
      {fault::kUntaggedVersion, "DDP: untagged buffer: version not supported"},
      {fault::kCrc, "MPA: CRC of an FPDU does not match"},
  };
  for (const Name& name : kNames) {
    if (name.code == code) return name.text;
  }
  return absl::StrCat("layer ", static_cast<int>(code.layer), " type ", code.type, " code ",
                      code.code);
}

}  // namespace dafs::dat::iwarp
