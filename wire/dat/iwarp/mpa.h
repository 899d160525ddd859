// MPA: the request and reply frames that open a connection, and the framing of FPDUs.
// Spec: RFC 5044, 4 (FPDU format), 7.1 (connection set-up); RFC 6581 (revision 2, answered only);
// WIRE 11.1, 11.6. Pure: no sockets, no allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"

namespace dafs::dat::iwarp {

inline constexpr size_t kMpaFrameHeaderBytes = 20;
inline constexpr size_t kMaxPrivateDataBytes = 512;  // RFC 5044, 7.1.1: PD_Length
inline constexpr size_t kMaxMpaFrameBytes = kMpaFrameHeaderBytes + kMaxPrivateDataBytes;

enum class MpaFrameKind : uint8_t { kRequest, kReply };

// The fixed part of an MPA Request or Reply Frame; `private_data_bytes` of private data follow.
struct MpaFrame {
  MpaFrameKind kind = MpaFrameKind::kRequest;
  bool markers = false;   // M: the sender of this frame requests markers
  bool crc = false;       // C: the sender requests CRC32C
  bool reject = false;    // R: in a reply
  bool enhanced = false;  // S, revision 2: the private data begins with EnhancedSetup
  uint8_t revision = 1;
  uint16_t private_data_bytes = 0;
  friend bool operator==(const MpaFrame&, const MpaFrame&) = default;
};

// Writes the header and `private_data` (at most kMaxPrivateDataBytes) to `to`. Returns the number
// of bytes written. The size of `private_data` replaces `frame.private_data_bytes`.
size_t EncodeMpaFrame(const MpaFrame& frame, std::span<const std::byte> private_data,
                      std::span<std::byte, kMaxMpaFrameBytes> to);

// Reads the fixed part. kDataLoss: not such a frame, or more private data than MPA allows. The
// caller must check flags and revision.
absl::StatusOr<MpaFrame> DecodeMpaFrame(MpaFrameKind expected,
                                        std::span<const std::byte, kMpaFrameHeaderBytes> from);

// RFC 6581, 4: the four bytes before the private data of an enhanced frame.
struct EnhancedSetup {
  uint16_t ird = 0;           // RDMA reads this side answers at the same time
  uint16_t ord = 0;           // RDMA reads this side has in flight at the same time
  bool peer_to_peer = false;  // A: the initiator opens with a ready-to-receive frame
  bool send_rtr = false;      // B: a zero-length FPDU (Send)
  bool write_rtr = false;     // C: a zero-length RDMA Write
  bool read_rtr = false;      // D: a zero-length RDMA Read
  friend bool operator==(const EnhancedSetup&, const EnhancedSetup&) = default;
};
inline constexpr size_t kEnhancedSetupBytes = 4;
void EncodeEnhancedSetup(const EnhancedSetup& setup, std::span<std::byte, kEnhancedSetupBytes> to);
EnhancedSetup DecodeEnhancedSetup(std::span<const std::byte, kEnhancedSetupBytes> from);

// A trailer that two ends of this provider exchange in the last bytes of their private data, after
// the user's own data (WIRE 11.1: "what follows is ignored"). Its presence means that the sender
// accepts FPDUs of any length, including short ones.
struct PeerTrailer {
  uint16_t ird = 0;  // RDMA reads this side answers at the same time
  friend bool operator==(const PeerTrailer&, const PeerTrailer&) = default;
};
inline constexpr size_t kPeerTrailerBytes = 12;
void EncodePeerTrailer(const PeerTrailer& trailer, std::span<std::byte, kPeerTrailerBytes> to);
// Returns the trailer at the end of `private_data`; nullopt if there is none.
std::optional<PeerTrailer> FindPeerTrailer(std::span<const std::byte> private_data);

// FPDU: ULPDU_Length, ULPDU, pad to a multiple of four, CRC.
inline constexpr size_t kFpduHeaderBytes = 2;
inline constexpr size_t kCrcBytes = 4;
inline constexpr size_t kMaxUlpduBytes = 0xffff;
constexpr size_t PadBytes(size_t ulpdu_bytes) {
  return (4 - (kFpduHeaderBytes + ulpdu_bytes) % 4) % 4;
}
constexpr size_t FpduBytes(size_t ulpdu_bytes) {
  return kFpduHeaderBytes + ulpdu_bytes + PadBytes(ulpdu_bytes) + kCrcBytes;
}
// The longest ULPDU whose FPDU fits into a TCP segment of `mss_bytes`. Never less than the 128
// bytes that RFC 5044, 4.5 promises to DDP; such an FPDU may then span segments.
constexpr size_t MaxUlpduForSegment(size_t mss_bytes) {
  const size_t whole = mss_bytes / 4 * 4;
  const size_t fixed = kFpduHeaderBytes + kCrcBytes;
  if (whole < fixed + 128) return 128;
  return whole - fixed < kMaxUlpduBytes ? whole - fixed : kMaxUlpduBytes;
}

// Writes the CRC field in wire order (low byte first, as in iSCSI).
void PutCrc(std::byte* to, uint32_t crc);
uint32_t GetCrc(const std::byte* from);

}  // namespace dafs::dat::iwarp
