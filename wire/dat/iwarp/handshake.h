// What both sides settle in the MPA request and reply: CRC, FPDU size, RDMA reads in flight, and
// the users' private data. Spec: RFC 5044, 7.1; RFC 6581 (answered); WIRE 11.1, 11.6.
// Pure except for MpaFrameReader, which reads one frame from a socket. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/dat/iwarp/mpa.h"

namespace dafs::dat::iwarp {

// The most a user may hand to Connect or Accept: with our trailer and an enhanced frame's setup
// it stays below the 256 bytes siw takes.
inline constexpr size_t kMaxUserPrivateData = 196;

// A peer's request or reply, judged.
struct PeerHello {
  MpaFrame frame;
  std::optional<EnhancedSetup> enhanced;  // revision 2
  std::optional<PeerTrailer> trailer;     // the peer is this provider
  std::vector<std::byte> private_data;    // the user's part
};

// A whole frame to send.
struct MpaFrameBytes {
  std::array<std::byte, kMaxMpaFrameBytes> bytes;
  size_t size = 0;
};

MpaFrameBytes MakeRequest(const IwarpOptions& options, std::span<const std::byte> private_data);
// kDataLoss: not an MPA request. kUnimplemented: a request to reject (markers, revision).
absl::StatusOr<PeerHello> JudgeRequest(const MpaFrame& frame,
                                       std::span<const std::byte> private_data);
// `max_rdma_reads`: what this endpoint would have in flight.
MpaFrameBytes MakeReply(const IwarpOptions& options, const PeerHello& request,
                        std::span<const std::byte> private_data, uint32_t max_rdma_reads);
MpaFrameBytes MakeReject(bool crc);
// kUnavailable: the peer rejected the connection. kDataLoss, kUnimplemented: as above.
absl::StatusOr<PeerHello> JudgeReply(const MpaFrame& frame,
                                     std::span<const std::byte> private_data);

// What this side sends by: bounded by what the peer takes.
size_t ChooseMaxUlpdu(const PeerHello& peer, bool recognise_peer, int fd);
uint32_t ChooseMaxRdmaReads(const PeerHello& peer, uint32_t wanted);

// Reads one frame of a kind, and no byte beyond it.
class MpaFrameReader {
 public:
  explicit MpaFrameReader(MpaFrameKind kind) : kind_(kind) {}
  // Reads what there is from `fd`. True when the frame is whole. kDataLoss: no such frame;
  // kUnavailable: the peer closed, or the socket failed.
  absl::StatusOr<bool> Read(int fd);
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
