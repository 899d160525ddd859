#include "wire/dat/iwarp/handshake.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "wire/dat/iwarp/transmit.h"

namespace dafs::dat::iwarp {
namespace {

constexpr uint8_t kRevision = 1;
constexpr uint8_t kEnhancedRevision = 2;

// The private data in wire order: [enhanced setup] user's data [trailer].
MpaFrameBytes MakeFrame(const MpaFrame& frame, const std::optional<EnhancedSetup>& enhanced,
                        std::span<const std::byte> private_data, bool with_trailer) {
  std::array<std::byte, kEnhancedSetupBytes + kMaxUserPrivateData + kPeerTrailerBytes> data;
  size_t size = 0;
  if (enhanced.has_value()) {
    EncodeEnhancedSetup(*enhanced, std::span(data).first<kEnhancedSetupBytes>());
    size += kEnhancedSetupBytes;
  }
  std::copy(private_data.begin(), private_data.end(), &data[size]);
  size += private_data.size();
  if (with_trailer) {
    EncodePeerTrailer({.ird = kMaxInboundReads},
                      std::span<std::byte, kPeerTrailerBytes>(&data[size], kPeerTrailerBytes));
    size += kPeerTrailerBytes;
  }
  MpaFrameBytes bytes;
  bytes.size = EncodeMpaFrame(frame, std::span(data).first(size), bytes.bytes);
  return bytes;
}

absl::StatusOr<PeerHello> JudgeFrame(const MpaFrame& frame,
                                     std::span<const std::byte> private_data) {
  if (frame.revision != kRevision && frame.revision != kEnhancedRevision) {
    return absl::UnimplementedError(
        absl::StrCat("MPA: revision ", frame.revision, " is not supported"));
  }
  if (frame.markers) return absl::UnimplementedError("MPA: markers are not supported");
  PeerHello hello;
  hello.frame = frame;
  if (frame.revision == kEnhancedRevision && frame.enhanced) {
    if (private_data.size() < kEnhancedSetupBytes) {
      return absl::DataLossError("MPA: enhanced frame without its setup");
    }
    hello.enhanced = DecodeEnhancedSetup(private_data.first<kEnhancedSetupBytes>());
    private_data = private_data.subspan(kEnhancedSetupBytes);
  }
  hello.trailer = FindPeerTrailer(private_data);
  if (hello.trailer.has_value()) {
    private_data = private_data.first(private_data.size() - kPeerTrailerBytes);
  }
  hello.private_data.assign(private_data.begin(), private_data.end());
  return hello;
}

}  // namespace

MpaFrameBytes MakeRequest(const IwarpOptions& options, std::span<const std::byte> private_data) {
  MpaFrame frame;
  frame.kind = MpaFrameKind::kRequest;
  frame.crc = options.want_crc;
  frame.revision = kRevision;
  return MakeFrame(frame, std::nullopt, private_data, options.recognise_peer);
}

absl::StatusOr<PeerHello> JudgeRequest(const MpaFrame& frame,
                                       std::span<const std::byte> private_data) {
  return JudgeFrame(frame, private_data);
}

MpaFrameBytes MakeReply(const IwarpOptions& options, const PeerHello& request,
                        std::span<const std::byte> private_data, uint32_t max_rdma_reads) {
  MpaFrame frame;
  frame.kind = MpaFrameKind::kReply;
  frame.crc = options.want_crc || request.frame.crc;
  frame.revision = request.frame.revision;
  frame.enhanced = request.enhanced.has_value();
  std::optional<EnhancedSetup> setup;
  if (request.enhanced.has_value()) {
    const EnhancedSetup& asked = *request.enhanced;
    setup.emplace();
    setup->ird = static_cast<uint16_t>(std::min<uint32_t>(kMaxInboundReads, asked.ord));
    setup->ord = static_cast<uint16_t>(std::min<uint32_t>(max_rdma_reads, asked.ird));
    setup->peer_to_peer = asked.peer_to_peer;
    // Prefer a zero-length write, which needs no buffer on either side; then the read.
    setup->read_rtr = asked.peer_to_peer && !asked.write_rtr && asked.read_rtr;
    setup->write_rtr = asked.peer_to_peer && !setup->read_rtr;
  }
  return MakeFrame(frame, setup, private_data,
                   options.recognise_peer && request.trailer.has_value());
}

MpaFrameBytes MakeReject(bool crc) {
  MpaFrame frame;
  frame.kind = MpaFrameKind::kReply;
  frame.crc = crc;
  frame.reject = true;
  frame.revision = kRevision;
  return MakeFrame(frame, std::nullopt, {}, false);
}

void SendReject(const ByteStream& stream, bool crc) {
  MpaFrameBytes reject = MakeReject(crc);
  iovec piece = {.iov_base = reject.bytes.data(), .iov_len = reject.size};
  (void)stream.Send({&piece, 1});
}

absl::StatusOr<PeerHello> JudgeReply(const MpaFrame& frame,
                                     std::span<const std::byte> private_data) {
  if (frame.reject) {
    return absl::UnavailableError(
        "MPA: the peer rejected the connection, probably because of a limit of its sessions; see "
        "its log");
  }
  return JudgeFrame(frame, private_data);
}

size_t ChooseMaxUlpdu(const PeerHello& peer, bool recognise_peer, int fd) {
  if (recognise_peer && peer.trailer.has_value()) return kMaxUlpduBytes;
  int mss = 0;
  socklen_t size = sizeof(mss);
  // 536 is the smallest maximum segment size of a TCP peer (RFC 9293, 3.7.1).
  if (getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &size) != 0 || mss < 536) mss = 536;
  // Stay below the limit: the limit itself means that the peer accepts any length.
  return std::min(MaxUlpduForSegment(static_cast<size_t>(mss)), kMaxUlpduBytes - 1);
}

uint32_t ChooseMaxRdmaReads(const PeerHello& peer, uint32_t wanted) {
  uint32_t reads = wanted;
  if (peer.enhanced.has_value()) reads = std::min<uint32_t>(reads, peer.enhanced->ird);
  if (peer.trailer.has_value()) reads = std::min<uint32_t>(reads, peer.trailer->ird);
  return std::max<uint32_t>(reads, 1);
}

absl::StatusOr<bool> MpaFrameReader::Read(const ByteStream& stream) {
  while (have_ < want_) {
    iovec piece = {.iov_base = &bytes_[have_], .iov_len = want_ - have_};
    const ssize_t got = stream.Receive({&piece, 1});
    if (got < 0 && IsWaiting(errno)) return false;
    if (got < 0) return stream.Error("MPA handshake");
    if (got == 0) return absl::UnavailableError("MPA handshake: the peer closed the connection");
    have_ += static_cast<size_t>(got);
    if (have_ == want_ && want_ == kMpaFrameHeaderBytes) {
      absl::StatusOr<MpaFrame> frame =
          DecodeMpaFrame(kind_, std::span(bytes_).first<kMpaFrameHeaderBytes>());
      if (!frame.ok()) return frame.status();
      frame_ = *frame;
      want_ += frame_.private_data_bytes;
    }
  }
  return true;
}

}  // namespace dafs::dat::iwarp
