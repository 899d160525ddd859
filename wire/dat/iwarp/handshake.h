// The MPA request and reply, by which both sides agree on CRC, FPDU size and RDMA reads in flight,
// and exchange their users' private data. Spec: RFC 5044, 7.1; RFC 6581 (answered); WIRE 11.1,
// 11.6.
// Pure except for MpaFrameReader, which reads one frame from a connection. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/dat/iwarp/byte_stream.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/dat/iwarp/mpa.h"

namespace dafs::dat::iwarp {

// The most private data that a user may pass to Connect or Accept. With our trailer and the setup
// of an enhanced frame, the total stays below the 256 bytes that siw accepts.
inline constexpr size_t kMaxUserPrivateData = 196;

// A peer's checked request or reply.
struct PeerHello {
  MpaFrame frame;
  std::optional<EnhancedSetup> enhanced;  // revision 2
  std::optional<PeerTrailer> trailer;     // the peer is this provider
  std::vector<std::byte> private_data;    // the user's part
};

// A whole frame, ready to send.
struct MpaFrameBytes {
  std::array<std::byte, kMaxMpaFrameBytes> bytes;
  size_t size = 0;
};

MpaFrameBytes MakeRequest(const IwarpOptions& options, std::span<const std::byte> private_data);
// kDataLoss: not an MPA request. kUnimplemented: a request to reject (markers, revision).
absl::StatusOr<PeerHello> JudgeRequest(const MpaFrame& frame,
                                       std::span<const std::byte> private_data);
// `max_rdma_reads`: how many reads this endpoint wants in flight.
MpaFrameBytes MakeReply(const IwarpOptions& options, const PeerHello& request,
                        std::span<const std::byte> private_data, uint32_t max_rdma_reads);
MpaFrameBytes MakeReject(bool crc);
// Sends MakeReject(crc), if the connection takes it at once.
void SendReject(const ByteStream& stream, bool crc);
// kUnavailable: the peer rejected the connection. kDataLoss, kUnimplemented: as above.
absl::StatusOr<PeerHello> JudgeReply(const MpaFrame& frame,
                                     std::span<const std::byte> private_data);

// The largest ULPDU that this side sends; the peer's limit bounds it.
size_t ChooseMaxUlpdu(const PeerHello& peer, bool recognise_peer, int fd);
uint32_t ChooseMaxRdmaReads(const PeerHello& peer, uint32_t wanted);

// Reads one frame of the given kind, and no byte beyond it.
class MpaFrameReader {
 public:
  explicit MpaFrameReader(MpaFrameKind kind) : kind_(kind) {}
  // Reads the available bytes of `stream`. Returns true when the frame is complete. Errors:
  // kDataLoss: not such a frame; kUnavailable: the peer closed, or the socket failed; those of TLS.
  absl::StatusOr<bool> Read(const ByteStream& stream);
  const MpaFrame& frame() const { return frame_; }
  std::span<const std::byte> private_data() const {
    return std::span(bytes_).subspan(kMpaFrameHeaderBytes, frame_.private_data_bytes);
  }

 private:
  MpaFrameKind kind_;
  MpaFrame frame_;
  size_t have_ = 0;
  size_t want_ = kMpaFrameHeaderBytes;
  std::array<std::byte, kMaxMpaFrameBytes> bytes_;
};

}  // namespace dafs::dat::iwarp
