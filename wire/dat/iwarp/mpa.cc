#include "wire/dat/iwarp/mpa.h"

#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "wire/dat/iwarp/bytes.h"

namespace dafs::dat::iwarp {
namespace {

constexpr std::string_view kRequestKey = "MPA ID Req Frame";
constexpr std::string_view kReplyKey = "MPA ID Rep Frame";
static_assert(kRequestKey.size() == 16 && kReplyKey.size() == 16);

constexpr uint16_t kMarkersBit = 0x8000;
constexpr uint16_t kCrcBit = 0x4000;
constexpr uint16_t kRejectBit = 0x2000;
constexpr uint16_t kEnhancedBit = 0x1000;

constexpr uint16_t kDepthMask = 0x3fff;

// "dafsiwrp", a version byte that changes with the layout, a reserved byte, then the IRD.
constexpr std::string_view kTrailerMagic("dafsiwrp\x01\x00", 10);

std::string_view KeyOf(MpaFrameKind kind) {
  return kind == MpaFrameKind::kRequest ? kRequestKey : kReplyKey;
}

}  // namespace

size_t EncodeMpaFrame(const MpaFrame& frame, std::span<const std::byte> private_data,
                      std::span<std::byte, kMaxMpaFrameBytes> to) {
  std::memcpy(to.data(), KeyOf(frame.kind).data(), 16);
  unsigned bits = frame.revision;
  if (frame.markers) bits |= kMarkersBit;
  if (frame.crc) bits |= kCrcBit;
  if (frame.reject) bits |= kRejectBit;
  if (frame.enhanced) bits |= kEnhancedBit;
  PutBig(&to[16], static_cast<uint16_t>(bits));
  PutBig(&to[18], static_cast<uint16_t>(private_data.size()));
  if (!private_data.empty()) {
    std::memcpy(&to[kMpaFrameHeaderBytes], private_data.data(), private_data.size());
  }
  return kMpaFrameHeaderBytes + private_data.size();
}

absl::StatusOr<MpaFrame> DecodeMpaFrame(MpaFrameKind expected,
                                        std::span<const std::byte, kMpaFrameHeaderBytes> from) {
  if (std::memcmp(from.data(), KeyOf(expected).data(), 16) != 0) {
    return absl::DataLossError("MPA: the peer does not speak iWARP (wrong key)");
  }
  MpaFrame frame;
  frame.kind = expected;
  const uint16_t bits = GetBig<uint16_t>(&from[16]);
  frame.markers = (bits & kMarkersBit) != 0;
  frame.crc = (bits & kCrcBit) != 0;
  frame.reject = (bits & kRejectBit) != 0;
  frame.enhanced = (bits & kEnhancedBit) != 0;
  frame.revision = static_cast<uint8_t>(bits & 0xff);
  frame.private_data_bytes = GetBig<uint16_t>(&from[18]);
  if (frame.private_data_bytes > kMaxPrivateDataBytes) {
    return absl::DataLossError(absl::StrCat("MPA: private data of ", frame.private_data_bytes,
                                            " bytes, the limit is ", kMaxPrivateDataBytes));
  }
  return frame;
}

void EncodeEnhancedSetup(const EnhancedSetup& setup, std::span<std::byte, kEnhancedSetupBytes> to) {
  unsigned ird = setup.ird & kDepthMask;
  unsigned ord = setup.ord & kDepthMask;
  if (setup.peer_to_peer) ird |= 0x8000;
  if (setup.send_rtr) ird |= 0x4000;
  if (setup.write_rtr) ord |= 0x8000;
  if (setup.read_rtr) ord |= 0x4000;
  PutBig(&to[0], static_cast<uint16_t>(ird));
  PutBig(&to[2], static_cast<uint16_t>(ord));
}

EnhancedSetup DecodeEnhancedSetup(std::span<const std::byte, kEnhancedSetupBytes> from) {
  const uint16_t ird = GetBig<uint16_t>(&from[0]);
  const uint16_t ord = GetBig<uint16_t>(&from[2]);
  EnhancedSetup setup;
  setup.ird = ird & kDepthMask;
  setup.ord = ord & kDepthMask;
  setup.peer_to_peer = (ird & 0x8000) != 0;
  setup.send_rtr = (ird & 0x4000) != 0;
  setup.write_rtr = (ord & 0x8000) != 0;
  setup.read_rtr = (ord & 0x4000) != 0;
  return setup;
}

void EncodePeerTrailer(const PeerTrailer& trailer, std::span<std::byte, kPeerTrailerBytes> to) {
  std::memcpy(to.data(), kTrailerMagic.data(), kTrailerMagic.size());
  PutBig(&to[kTrailerMagic.size()], trailer.ird);
}

std::optional<PeerTrailer> FindPeerTrailer(std::span<const std::byte> private_data) {
  if (private_data.size() < kPeerTrailerBytes) return std::nullopt;
  const std::byte* at = private_data.data() + private_data.size() - kPeerTrailerBytes;
  if (std::memcmp(at, kTrailerMagic.data(), kTrailerMagic.size()) != 0) return std::nullopt;
  return PeerTrailer{.ird = GetBig<uint16_t>(at + kTrailerMagic.size())};
}

void PutCrc(std::byte* to, uint32_t crc) {
  for (size_t i = 0; i < kCrcBytes; ++i) to[i] = static_cast<std::byte>((crc >> (8 * i)) & 0xff);
}

uint32_t GetCrc(const std::byte* from) {
  uint32_t crc = 0;
  for (size_t i = kCrcBytes; i-- > 0;) crc = (crc << 8) | static_cast<uint32_t>(from[i]);
  return crc;
}

}  // namespace dafs::dat::iwarp
