#include "wire/dat/iwarp/mpa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/wire/dat/iwarp/raw_peer.h"
#include "wire/dat/iwarp/handshake.h"

namespace dafs::dat::iwarp {
namespace {

using testing::FromHex;
using testing::ToHex;

std::array<std::byte, kMpaFrameHeaderBytes> Header(const std::string& hex) {
  std::array<std::byte, kMpaFrameHeaderBytes> header;
  const testing::ByteString bytes = FromHex(hex);
  std::copy(bytes.begin(), bytes.begin() + kMpaFrameHeaderBytes, header.begin());
  return header;
}

TEST(MpaFrame, PrivateDataBeyond512BytesIsRefused) {
  auto header = Header("4d504120494420526571204672616d6500010200");
  EXPECT_TRUE(DecodeMpaFrame(MpaFrameKind::kRequest, header).ok());
  header[19] = std::byte{1};
  EXPECT_EQ(DecodeMpaFrame(MpaFrameKind::kRequest, header).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(MpaFrame, RequestIsNotAcceptedAsAReply) {
  const auto header = Header("4d504120494420526571204672616d6500010000");
  EXPECT_FALSE(DecodeMpaFrame(MpaFrameKind::kReply, header).ok());
}

TEST(MpaFrame, PadsFpdusToFourBytes) {
  EXPECT_EQ(PadBytes(14), 0u);
  EXPECT_EQ(PadBytes(15), 3u);
  EXPECT_EQ(PadBytes(16), 2u);
  EXPECT_EQ(PadBytes(17), 1u);
  EXPECT_EQ(FpduBytes(14), 20u);
  EXPECT_EQ(FpduBytes(15), 24u);
}

TEST(MpaFrame, FpduForASegmentFitsIntoIt) {
  for (size_t mss = 536; mss < 70000; ++mss) {
    const size_t ulpdu = MaxUlpduForSegment(mss);
    ASSERT_LE(FpduBytes(ulpdu), std::max<size_t>(mss, 134)) << mss;
    ASSERT_LE(ulpdu, kMaxUlpduBytes);
  }
  EXPECT_EQ(MaxUlpduForSegment(1460), 1454u);
  EXPECT_EQ(MaxUlpduForSegment(100), 128u);  // RFC 5044, 4.5
}

TEST(PeerTrailer, IsFoundOnlyAtTheEnd) {
  std::array<std::byte, 16 + kPeerTrailerBytes> data = {};
  EXPECT_FALSE(FindPeerTrailer(data).has_value());
  EncodePeerTrailer({.ird = 77}, std::span(data).last<kPeerTrailerBytes>());
  ASSERT_TRUE(FindPeerTrailer(data).has_value());
  EXPECT_EQ(FindPeerTrailer(data)->ird, 77);
  EXPECT_FALSE(FindPeerTrailer(std::span(data).first(data.size() - 1)).has_value());
  EXPECT_FALSE(FindPeerTrailer(std::span(data).last(kPeerTrailerBytes - 1)).has_value());
  EXPECT_FALSE(FindPeerTrailer({}).has_value());
}

TEST(Handshake, UserDataIsReturnedWithoutTheTrailer) {
  const std::string text = "sixteen bytes...";
  const MpaFrameBytes request = MakeRequest({}, testing::Bytes(text));
  EXPECT_EQ(request.size, kMpaFrameHeaderBytes + 16 + kPeerTrailerBytes);
  // WIRE 11.1: the user's bytes come first.
  EXPECT_EQ(std::memcmp(&request.bytes[kMpaFrameHeaderBytes], text.data(), 16), 0);
  const auto frame = DecodeMpaFrame(MpaFrameKind::kRequest,
                                    std::span(request.bytes).first<kMpaFrameHeaderBytes>());
  ASSERT_TRUE(frame.ok());
  const auto hello = JudgeRequest(
      *frame, std::span(request.bytes).subspan(kMpaFrameHeaderBytes, frame->private_data_bytes));
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(ToHex(hello->private_data), ToHex(testing::Bytes(text)));
  EXPECT_TRUE(hello->trailer.has_value());
}

TEST(Handshake, ForeignPeerGetsNoTrailerInTheReply) {
  const auto hello = JudgeRequest(MpaFrame(), {});
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(MakeReply({}, *hello, {}, 8).size, kMpaFrameHeaderBytes);
}

TEST(Handshake, CrcIsUsedIfEitherSideRequestsIt) {
  for (const bool client : {false, true}) {
    for (const bool server : {false, true}) {
      MpaFrame request;
      request.crc = client;
      const auto hello = JudgeRequest(request, {});
      ASSERT_TRUE(hello.ok());
      const MpaFrameBytes reply = MakeReply({.want_crc = server}, *hello, {}, 8);
      const auto frame = DecodeMpaFrame(MpaFrameKind::kReply,
                                        std::span(reply.bytes).first<kMpaFrameHeaderBytes>());
      ASSERT_TRUE(frame.ok());
      EXPECT_EQ(frame->crc, client || server);
    }
  }
}

TEST(Handshake, MarkersAndUnknownRevisionsReturnUnimplemented) {
  MpaFrame markers;
  markers.markers = true;
  EXPECT_TRUE(absl::IsUnimplemented(JudgeRequest(markers, {}).status()));
  MpaFrame future;
  future.revision = 3;
  EXPECT_TRUE(absl::IsUnimplemented(JudgeRequest(future, {}).status()));
  MpaFrame rejected;
  rejected.reject = true;
  EXPECT_TRUE(absl::IsUnavailable(JudgeReply(rejected, {}).status()));
}

// RFC 6581: the kernel's siw sends this as a client by default.
TEST(Handshake, EnhancedRequestGetsAnEnhancedReply) {
  MpaFrame frame;
  frame.revision = 2;
  frame.enhanced = true;
  testing::ByteString data = FromHex("80104008");  // peer to peer, IRD 16; read RTR, ORD 8
  const std::string text = "user";
  data.insert(data.end(), testing::Bytes(text).begin(), testing::Bytes(text).end());
  const auto hello = JudgeRequest(frame, data);
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(ToHex(hello->private_data), ToHex(testing::Bytes(text)));
  EXPECT_EQ(hello->enhanced->ird, 16);
  EXPECT_EQ(hello->enhanced->ord, 8);
  EXPECT_EQ(ChooseMaxRdmaReads(*hello, 128), 16u);
  const MpaFrameBytes reply = MakeReply({}, *hello, {}, 12);
  // Revision 2 with S. Our IRD is their ORD, our ORD is at most their IRD, and the RTR is the one
  // they offered.
  EXPECT_EQ(ToHex(std::span(reply.bytes).first(reply.size)),
            "4d504120494420526570204672616d6510020004"
            "8008400c");
}

TEST(Handshake, EnhancedFrameWithoutItsSetupIsRefused) {
  MpaFrame frame;
  frame.revision = 2;
  frame.enhanced = true;
  EXPECT_TRUE(absl::IsDataLoss(JudgeRequest(frame, FromHex("8010")).status()));
}

}  // namespace
}  // namespace dafs::dat::iwarp
