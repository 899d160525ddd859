// Every case of tests/wire/vectors/iwarp.json: bytes made by another implementation.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/crc32c.h"
#include "tests/wire/dat/iwarp/raw_peer.h"
#include "wire/dat/iwarp/bytes.h"
#include "wire/dat/iwarp/ddp.h"
#include "wire/dat/iwarp/handshake.h"
#include "wire/dat/iwarp/mpa.h"

namespace dafs::dat::iwarp {
namespace {

using testing::ByteString;
using testing::FromHex;
using testing::ToHex;

const nlohmann::json& Vectors() {
  static const nlohmann::json vectors = [] {
    std::ifstream file(DAFS_SOURCE_DIR "/tests/wire/vectors/iwarp.json");
    return nlohmann::json::parse(file);
  }();
  return vectors;
}

const nlohmann::json& Case(const char* group, const std::string& name) {
  for (const auto& one : Vectors().at(group)) {
    if (one.at("name") == name) return one;
  }
  ADD_FAILURE() << "no vector " << name;
  return Vectors();
}

ByteString Hex(const nlohmann::json& one, const char* field) {
  return FromHex(one.at(field).get<std::string>());
}

MpaFrameKind KindOf(const nlohmann::json& one) {
  return one.at("name").get<std::string>().rfind("request", 0) == 0 ? MpaFrameKind::kRequest
                                                                    : MpaFrameKind::kReply;
}

TEST(IwarpVectors, MpaFramesEncodeAndDecodeExactly) {
  ASSERT_EQ(Vectors().at("mpa_frames").size(), 8u);
  for (const auto& one : Vectors().at("mpa_frames")) {
    SCOPED_TRACE(one.at("name").get<std::string>());
    MpaFrame frame;
    frame.kind = KindOf(one);
    frame.markers = one.at("markers");
    frame.crc = one.at("crc");
    frame.reject = one.at("reject");
    frame.revision = one.at("revision");
    const ByteString data = Hex(one, "private_data");
    const ByteString expected = Hex(one, "hex");
    std::array<std::byte, kMaxMpaFrameBytes> bytes;
    const size_t size = EncodeMpaFrame(frame, data, bytes);
    EXPECT_EQ(ToHex(std::span(bytes).first(size)), ToHex(expected));
    frame.private_data_bytes = static_cast<uint16_t>(data.size());
    ASSERT_GE(expected.size(), kMpaFrameHeaderBytes);
    const auto decoded =
        DecodeMpaFrame(frame.kind, std::span(expected).first<kMpaFrameHeaderBytes>());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, frame);
  }
}

// The 16 bytes of WIRE 11.1 pass through a connection request unchanged.
TEST(IwarpVectors, PrivateDataArrivesExactly) {
  ASSERT_EQ(Vectors().at("private_data").size(), 6u);
  for (const auto& one : Vectors().at("private_data")) {
    const ByteString data = Hex(one, "hex");
    const auto provider = NewIwarpProvider();
    const std::string text(reinterpret_cast<const char*>(data.data()), data.size());
    auto pair = testing::MakePair(*provider, *provider, testing::LoopbackAddress(), {}, text);
    ASSERT_TRUE(pair.ok()) << pair.status();
    EXPECT_EQ(ToHex((*pair)->server.endpoint->peer_private_data()),
              one.at("hex").get<std::string>());
  }
}

SegmentHeader HeaderOf(const nlohmann::json& segment) {
  SegmentHeader header;
  header.tagged = segment.at("tagged");
  header.last = segment.at("last");
  header.opcode = static_cast<Opcode>(segment.at("opcode").get<int>());
  if (header.tagged) {
    header.stag = segment.at("stag");
    header.to = segment.at("to");
  } else {
    header.stag = segment.at("invalidate_stag");
    header.qn = segment.at("qn");
    header.msn = segment.at("msn");
    header.mo = segment.at("mo");
  }
  return header;
}

// Shows DDP-2.2-04
TEST(IwarpVectors, FpdusEncodeAndDecodeExactly) {
  ASSERT_EQ(Vectors().at("fpdus").size(), 28u);
  for (const auto& one : Vectors().at("fpdus")) {
    SCOPED_TRACE(one.at("name").get<std::string>());
    const SegmentHeader header = HeaderOf(one.at("segment"));
    const ByteString payload = Hex(one.at("segment"), "payload");
    const ByteString ulpdu = testing::MakeUlpdu(header, payload);
    EXPECT_EQ(ToHex(ulpdu), one.at("ulpdu").get<std::string>());
    EXPECT_EQ(ToHex(testing::MakeFpdu(ulpdu, one.at("crc"))), one.at("hex").get<std::string>());
    SegmentHeader decoded;
    const auto fault = DecodeSegmentHeader(ulpdu, ulpdu.size(), &decoded);
    EXPECT_FALSE(fault.has_value()) << Describe(*fault);
    EXPECT_EQ(decoded, header);
    // A truncated header is refused at every length.
    for (size_t size = 0; size < header.size_bytes(); ++size) {
      EXPECT_TRUE(DecodeSegmentHeader(std::span(ulpdu).first(size), size, &decoded).has_value());
    }
  }
}

TEST(IwarpVectors, ReadRequestAndTerminateDecodeAndEncodeExactly) {
  const ByteString request =
      Hex(Case("fpdus", "rdma_read_request_no_crc").at("segment"), "payload");
  const ReadRequest read = DecodeReadRequest(std::span(request).first<kReadRequestBytes>());
  EXPECT_EQ(read, (ReadRequest{.sink_stag = 0x105,
                               .sink_to = 0x1000,
                               .size_bytes = 32,
                               .source_stag = 66051,
                               .source_to = 139638282145792}));
  std::array<std::byte, kReadRequestBytes> again;
  EncodeReadRequest(read, again.data());
  EXPECT_EQ(ToHex(again), ToHex(request));

  const ByteString full =
      Hex(Case("fpdus", "terminate_invalid_stag_no_crc").at("segment"), "payload");
  auto terminate = DecodeTerminate(full);
  ASSERT_TRUE(terminate.has_value());
  EXPECT_EQ(terminate->code, fault::kInvalidStag);
  EXPECT_EQ(terminate->ddp_segment_bytes, 0x12);
  EXPECT_EQ(terminate->ddp_header.size(), kTaggedHeaderBytes);
  std::array<std::byte, kMaxTerminateBytes> bytes;
  EXPECT_EQ(ToHex(std::span(bytes).first(EncodeTerminate(*terminate, bytes.data()))), ToHex(full));

  const ByteString brief =
      Hex(Case("fpdus", "terminate_no_buffer_no_crc").at("segment"), "payload");
  terminate = DecodeTerminate(brief);
  ASSERT_TRUE(terminate.has_value());
  EXPECT_EQ(terminate->code, fault::kNoBuffer);
  EXPECT_EQ(ToHex(std::span(bytes).first(EncodeTerminate(*terminate, bytes.data()))), ToHex(brief));
}

// Layer, type and code of the Terminate that answers each refused FPDU.
const std::map<std::string, FaultCode>& ExpectedFaults() {
  static const std::map<std::string, FaultCode> faults = {
      {"bad_crc", fault::kCrc},
      {"untagged_qn_3", fault::kInvalidQueue},
      {"send_on_qn_1", fault::kUnexpectedOpcode},
      {"msn_skipped", fault::kMsnRange},
      {"msn_zero", fault::kMsnRange},
      {"mo_not_zero", fault::kInvalidMo},
      {"mo_huge", fault::kInvalidMo},
      {"write_unknown_stag", fault::kInvalidStag},
      {"write_stag_zero", fault::kInvalidStag},
      {"read_response_unasked", fault::kUnexpectedOpcode},
      {"read_request_unknown_stag", fault::kReadInvalidStag},
      {"read_request_short", fault::kStreamCatastrophic},
      {"ddp_version_0", fault::kUntaggedVersion},
      {"rdmap_version_0", fault::kRdmapVersion},
      {"opcode_8", fault::kUnexpectedOpcode},
      {"tagged_send", fault::kUnexpectedOpcode},
      {"ulpdu_empty", fault::kDdpCatastrophic},
      {"ulpdu_one_byte", fault::kDdpCatastrophic},
      {"tagged_short", fault::kDdpCatastrophic},
      {"untagged_short", fault::kDdpCatastrophic},
  };
  return faults;
}

class RefusedFpdu : public ::testing::TestWithParam<std::string> {};

TEST_P(RefusedFpdu, IsAnsweredWithItsTerminateAndClosesTheConnection) {
  const nlohmann::json& one = Case("refuse", GetParam());
  const bool crc = one.at("crc");
  std::unique_ptr<testing::RawPair> pair;
  testing::Memory receive;  // in the domain of the pair, so it is freed first
  pair = testing::NewRawPair(crc, {}, [&](testing::Side& side) {
    receive = testing::NewMemory(*side.domain, 4096, Access::kLocal, 0x5a);
    ASSERT_TRUE(side.endpoint->PostReceive(7, receive.All()).ok());
  });
  ASSERT_NE(pair, nullptr);
  const ByteString fpdu = Hex(one, "hex");
  ASSERT_TRUE(pair->peer->Write(fpdu));

  const ByteString ulpdu = pair->peer->ReadUlpdu(crc);
  SegmentHeader header;
  ASSERT_FALSE(DecodeSegmentHeader(ulpdu, ulpdu.size(), &header).has_value()) << ToHex(ulpdu);
  EXPECT_EQ(header.opcode, Opcode::kTerminate);
  EXPECT_EQ(header.qn, kTerminateQueue);
  EXPECT_EQ(header.msn, 1u);
  EXPECT_TRUE(header.last);
  const auto terminate = DecodeTerminate(std::span(ulpdu).subspan(kUntaggedHeaderBytes));
  ASSERT_TRUE(terminate.has_value());
  EXPECT_EQ(terminate->code, ExpectedFaults().at(GetParam())) << Describe(terminate->code);
  if (!terminate->ddp_header.empty()) {
    EXPECT_EQ(terminate->ddp_segment_bytes, GetBig<uint16_t>(fpdu.data()));
    EXPECT_EQ(ToHex(terminate->ddp_header),
              ToHex(std::span(fpdu).subspan(2, terminate->ddp_header.size())));
  }
  EXPECT_TRUE(pair->peer->AtEnd());

  // The posted receive is flushed, unchanged, before kDisconnected.
  ASSERT_EQ(pair->side.Count(Event::kDisconnected), 1u);
  const auto flushed = pair->side.Take(Event::kReceive);
  ASSERT_TRUE(flushed.has_value());
  EXPECT_EQ(flushed->cookie, 7u);
  EXPECT_FALSE(flushed->status.ok());
  EXPECT_EQ(receive.bytes, std::vector<std::byte>(4096, std::byte{0x5a}));
}

std::vector<std::string> RefuseNames() {
  std::vector<std::string> names;
  for (const auto& one : Vectors().at("refuse")) names.push_back(one.at("name"));
  return names;
}

INSTANTIATE_TEST_SUITE_P(Vectors, RefusedFpdu, ::testing::ValuesIn(RefuseNames()),
                         [](const auto& info) { return info.param; });

TEST(IwarpVectors, EveryRefusedFpduHasItsTerminateHere) {
  EXPECT_EQ(RefuseNames().size(), 20u);
  for (const std::string& name : RefuseNames()) EXPECT_EQ(ExpectedFaults().count(name), 1u) << name;
}

}  // namespace
}  // namespace dafs::dat::iwarp
