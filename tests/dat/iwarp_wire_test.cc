// A live endpoint against a bare socket: each byte it sends, and what a correct peer never does.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "tests/dat/raw_peer.h"
#include "wire/dat/iwarp_bytes.h"
#include "wire/dat/iwarp_handshake.h"
#include "wire/dat/iwarp_transmit.h"

namespace dafs::dat::testing {
namespace {

using iwarp::Opcode;
using iwarp::SegmentHeader;

SegmentHeader SendHeader(uint32_t msn, uint32_t mo = 0, bool last = true) {
  SegmentHeader header;
  header.last = last;
  header.msn = msn;
  header.mo = mo;
  return header;
}

SegmentHeader WriteHeader(RemoteBuffer to, bool last = true) {
  SegmentHeader header;
  header.tagged = true;
  header.last = last;
  header.opcode = Opcode::kRdmaWrite;
  header.stag = to.context;
  header.to = to.target_address;
  return header;
}

ByteString ReadRequestUlpdu(uint32_t msn, const iwarp::ReadRequest& request) {
  SegmentHeader header = SendHeader(msn);
  header.opcode = Opcode::kReadRequest;
  header.qn = iwarp::kReadRequestQueue;
  std::array<std::byte, iwarp::kReadRequestBytes> payload;
  iwarp::EncodeReadRequest(request, payload.data());
  return MakeUlpdu(header, payload);
}

// The next ULPDU must be a Terminate with this code; then the stream ends.
void ExpectTerminate(RawPair& pair, iwarp::FaultCode code, bool with_ddp = true,
                     bool with_rdma = false) {
  const ByteString ulpdu = pair.peer->ReadUlpdu();
  ASSERT_GT(ulpdu.size(), iwarp::kUntaggedHeaderBytes) << ToHex(ulpdu);
  SegmentHeader header;
  ASSERT_FALSE(iwarp::DecodeSegmentHeader(ulpdu, ulpdu.size(), &header).has_value());
  ASSERT_EQ(header.opcode, Opcode::kTerminate) << ToHex(ulpdu);
  const auto terminate =
      iwarp::DecodeTerminate(std::span(ulpdu).subspan(iwarp::kUntaggedHeaderBytes));
  ASSERT_TRUE(terminate.has_value());
  EXPECT_EQ(iwarp::Describe(terminate->code), iwarp::Describe(code));
  EXPECT_EQ(!terminate->ddp_header.empty(), with_ddp);
  EXPECT_EQ(!terminate->rdma_header.empty(), with_rdma);
  EXPECT_TRUE(pair.peer->AtEnd());
  EXPECT_EQ(pair.side.Count(Event::kDisconnected), 1u);
}

class IwarpWire : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }
  void Start(const EndpointOptions& options = {}, bool crc = false) {
    pair_ = NewRawPair(crc, options, [this](Side& side) {
      receive_ = NewMemory(*side.domain, 4096, Access::kLocal);
      target_ = NewMemory(*side.domain, 8192, Access::kRemoteWrite);
      source_ = NewMemory(*side.domain, 8192, Access::kRemoteRead, -1);
      ASSERT_TRUE(side.endpoint->PostReceive(1, receive_.All()).ok());
    });
    ASSERT_NE(pair_, nullptr);
    ASSERT_EQ(pair_->side.Count(Event::kConnected), 1u);
  }
  bool WriteUlpdu(std::span<const std::byte> ulpdu, bool crc = false) {
    return pair_->peer->Write(MakeFpdu(ulpdu, crc));
  }
  // Lets the endpoint see what was written, until `event` came.
  std::optional<Completion> Await(Event event) {
    const absl::Time deadline = Loop::Now() + kPatience;
    while (pair_->side.Count(event) == 0 && Loop::Now() < deadline) pair_->side.Poll();
    return pair_->side.Take(event);
  }
  // The first FPDU of the initiator, after which the responder may send.
  void Release() { ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader({}), ""))); }

  std::unique_ptr<RawPair> pair_;  // with the domain, which outlives its regions
  Memory receive_;
  Memory target_;
  Memory source_;
};

TEST_F(IwarpWire, SendsExactlyTheBytesOfTheVectors) {
  Release();
  Memory memory = NewMemory(*pair_->side.domain, 64, Access::kLocal);
  const ByteString payload = FromHex(
      "53464144010000001000000004003401010203040506070800000000000000008400000028000000");
  std::copy(payload.begin(), payload.end(), memory.bytes.begin());
  const Segment whole = memory.At(0, payload.size());
  Endpoint& endpoint = *pair_->side.endpoint;
  ASSERT_TRUE(endpoint.PostSend(1, {&whole, 1}, {}).ok());
  EXPECT_EQ(ToHex(pair_->peer->Read(64)),
            "003a4143000000000000000000000001000000005346414401000000100000000400340101020304050607"
            "080000000000000000840000002800000000000000");
  // Two empty ones, from no segment and from an empty one, bring the MSN to 4.
  ASSERT_TRUE(endpoint.PostSend(2, {}, {}).ok());
  const Segment empty = memory.At(3, 0);
  ASSERT_TRUE(endpoint.PostSend(3, {&empty, 1}, {}).ok());
  EXPECT_EQ(ToHex(pair_->peer->Read(48)),
            "001241430000000000000000000000020000000000000000"
            "001241430000000000000000000000030000000000000000");
  ASSERT_TRUE(endpoint.PostSend(4, {&whole, 1}, {.signaled = true, .invalidate_context = 66051}).ok());
  EXPECT_EQ(ToHex(pair_->peer->Read(64)),
            "003a4144000102030000000000000004000000005346414401000000100000000400340101020304050607"
            "080000000000000000840000002800000000000000");
  memory.bytes[50] = std::byte{'x'};
  const Segment one = memory.At(50, 1);
  ASSERT_TRUE(endpoint
                  .PostRdmaWrite(5, {&one, 1},
                                 {.target_address = 18446744073709486088u, .context = 4294901244u},
                                 true)
                  .ok());
  EXPECT_EQ(ToHex(pair_->peer->Read(24)), "000fc140fffefdfcffffffffffff00087800000000000000");
}

TEST_F(IwarpWire, TheResponderStaysSilentUntilTheFirstFpdu) {
  const Segment some = source_.At(0, 4);
  ASSERT_TRUE(pair_->side.endpoint->PostSend(1, {&some, 1}, {}).ok());
  for (int i = 0; i < 100; ++i) pair_->side.Poll();
  EXPECT_EQ(pair_->side.Count(Event::kSend), 0u);
  std::byte byte;
  EXPECT_LT(recv(pair_->peer->fd(), &byte, 1, MSG_DONTWAIT), 0);
  Release();
  EXPECT_EQ(pair_->peer->ReadUlpdu().size(), iwarp::kUntaggedHeaderBytes + 4);
}

TEST_F(IwarpWire, TakesAMessageInOneByteSegmentsAndPieces) {
  const std::string text = "one byte at a time";
  for (uint32_t i = 0; i < text.size(); ++i) {
    const ByteString fpdu =
        MakeFpdu(MakeUlpdu(SendHeader(1, i, i + 1 == text.size()), text.substr(i, 1)), false);
    for (const std::byte& byte : fpdu) ASSERT_TRUE(pair_->peer->Write({&byte, 1}));
  }
  const auto received = Await(Event::kReceive);
  ASSERT_TRUE(received.has_value());
  EXPECT_TRUE(received->status.ok()) << received->status;
  EXPECT_EQ(received->size_bytes, text.size());
  EXPECT_EQ(std::memcmp(receive_.bytes.data(), text.data(), text.size()), 0);
}

TEST_F(IwarpWire, TakesSolicitedFormsAsPlainOnes) {
  SegmentHeader header = SendHeader(1);
  header.opcode = Opcode::kSendSolicited;
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(header, "plain")));
  auto received = Await(Event::kReceive);
  ASSERT_TRUE(received.has_value());
  EXPECT_TRUE(received->status.ok());
  EXPECT_FALSE(received->invalidated_context.has_value());

  ASSERT_TRUE(pair_->side.endpoint->PostReceive(2, receive_.All()).ok());
  header = SendHeader(2);
  header.opcode = Opcode::kSendSolicitedInvalidate;
  header.stag = target_.region->context();
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(header, "invalidate")));
  received = Await(Event::kReceive);
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->invalidated_context, target_.region->context());
}

TEST_F(IwarpWire, AnswersAReadInFpdusThatFitATcpSegment) {
  // A longer source than a segment takes, and a pair of its own.
  receive_ = {};
  target_ = {};
  pair_ = NewRawPair(false, {}, [this](Side& side) {
    source_ = NewMemory(*side.domain, 300000, Access::kRemoteRead, -1);
  });
  ASSERT_NE(pair_, nullptr);
  int mss = 0;
  socklen_t size = sizeof(mss);
  ASSERT_EQ(getsockopt(pair_->peer->fd(), IPPROTO_TCP, TCP_MAXSEG, &mss, &size), 0);
  const RemoteBuffer from = source_.Remote(100);
  ASSERT_TRUE(WriteUlpdu(ReadRequestUlpdu(1, {.sink_stag = 0x1234,
                                              .sink_to = 0x5000,
                                              .size_bytes = 250000,
                                              .source_stag = from.context,
                                              .source_to = from.target_address})));
  uint64_t offset = 0;
  while (offset < 250000) {
    const ByteString ulpdu = pair_->peer->ReadUlpdu();
    SegmentHeader header;
    ASSERT_FALSE(iwarp::DecodeSegmentHeader(ulpdu, ulpdu.size(), &header).has_value());
    EXPECT_LE(iwarp::FpduBytes(ulpdu.size()), static_cast<size_t>(mss));
    EXPECT_EQ(header.opcode, Opcode::kReadResponse);
    EXPECT_EQ(header.stag, 0x1234u);
    EXPECT_EQ(header.to, 0x5000 + offset);
    const size_t payload = ulpdu.size() - header.size_bytes();
    ASSERT_LE(offset + payload, 250000u);
    EXPECT_EQ(std::memcmp(&ulpdu[header.size_bytes()], &source_.bytes[100 + offset], payload), 0);
    offset += payload;
    EXPECT_EQ(header.last, offset == 250000);
  }
}

TEST_F(IwarpWire, ZeroLengthWritesAndReadsNameNoMemory) {
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader({.target_address = ~0ull, .context = 12}), "")));
  ASSERT_TRUE(WriteUlpdu(ReadRequestUlpdu(1, {.sink_stag = 9, .sink_to = 8})));
  EXPECT_EQ(ToHex(pair_->peer->ReadUlpdu()), "c142000000090000000000000008");
}

// Shows DAFS-B.5-02
TEST_F(IwarpWire, AWriteNeedsTheRightOfWriting) {
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(source_.Remote()), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kAccessRights);
}

TEST_F(IwarpWire, AWriteToMemoryOfNoRightAtAllIsRefused) {
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(receive_.Remote()), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kAccessRights);
}

TEST_F(IwarpWire, AWriteBehindTheEndIsRefusedAndPlacesNothing) {
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(target_.Remote(8192 - 3)), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kBounds);
  EXPECT_EQ(target_.bytes, std::vector<std::byte>(8192));
}

TEST_F(IwarpWire, AWriteBeforeTheBeginIsRefused) {
  RemoteBuffer to = target_.Remote();
  to.target_address -= 1;
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(to), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kBounds);
}

TEST_F(IwarpWire, ATargetAddressThatWrapsIsRefused) {
  RemoteBuffer to = target_.Remote();
  to.target_address = ~0ull - 1;
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(to), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kToWrap);
}

TEST_F(IwarpWire, AContextOfAnotherKeyIsRefused) {
  RemoteBuffer to = target_.Remote();
  to.context ^= 0x10000;
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(to), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kInvalidStag);
}

TEST_F(IwarpWire, AContextIsGoneWithItsRegion) {
  const RemoteBuffer to = target_.Remote();
  target_.region.reset();
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(to), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kInvalidStag);
}

TEST_F(IwarpWire, ARegionThatGoesAwayInMidWriteIsNotTouched) {
  // 6000 bytes announced, a part sent; then the region is gone and the rest comes.
  const ByteString fpdu =
      MakeFpdu(MakeUlpdu(WriteHeader(target_.Remote()), std::string(6000, 'x')), false);
  ASSERT_TRUE(pair_->peer->Write(std::span(fpdu).first(1000)));
  for (int i = 0; i < 50; ++i) pair_->side.Poll();
  target_.region.reset();
  const std::vector<std::byte> before = target_.bytes;
  EXPECT_EQ(before[0], std::byte{'x'});
  ASSERT_TRUE(pair_->peer->Write(std::span(fpdu).subspan(1000)));
  ExpectTerminate(*pair_, iwarp::fault::kInvalidStag);
  EXPECT_EQ(target_.bytes, before);
}

TEST_F(IwarpWire, AReadIsCheckedAndItsRequestRepeatedInTheTerminate) {
  const RemoteBuffer from = target_.Remote();  // no right of reading
  ASSERT_TRUE(WriteUlpdu(ReadRequestUlpdu(1, {.sink_stag = 1,
                                              .sink_to = 2,
                                              .size_bytes = 3,
                                              .source_stag = from.context,
                                              .source_to = from.target_address})));
  ExpectTerminate(*pair_, iwarp::fault::kAccessRights, true, true);
}

TEST_F(IwarpWire, AReadBehindTheEndIsRefused) {
  const RemoteBuffer from = source_.Remote(8000);
  ASSERT_TRUE(WriteUlpdu(ReadRequestUlpdu(1, {.sink_stag = 1,
                                              .sink_to = 2,
                                              .size_bytes = 193,
                                              .source_stag = from.context,
                                              .source_to = from.target_address})));
  ExpectTerminate(*pair_, iwarp::fault::kReadBounds, true, true);
}

TEST_F(IwarpWire, MoreReadsThanWeAnswerAtOnceAreRefused) {
  const RemoteBuffer from = source_.Remote();
  ByteString flood;
  for (uint32_t i = 1; i <= iwarp::kMaxInboundReads + 1; ++i) {
    const ByteString fpdu = MakeFpdu(ReadRequestUlpdu(i, {.sink_stag = 1,
                                                          .sink_to = 2,
                                                          .size_bytes = 1,
                                                          .source_stag = from.context,
                                                          .source_to = from.target_address}),
                                     false);
    flood.insert(flood.end(), fpdu.begin(), fpdu.end());
  }
  ASSERT_TRUE(pair_->peer->Write(flood));
  const auto end = Await(Event::kDisconnected);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->status.code(), absl::StatusCode::kDataLoss) << end->status;
}

TEST_F(IwarpWire, NoPostedReceiveEndsTheConnection) {
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(SendHeader(1), "fits")));
  ASSERT_TRUE(Await(Event::kReceive).has_value());
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(SendHeader(2), "no buffer")));
  ExpectTerminate(*pair_, iwarp::fault::kNoBuffer);
}

TEST_F(IwarpWire, AMessageLongerThanItsReceiveEndsTheConnection) {
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(SendHeader(1, 0, false), std::string(4000, 'a'))));
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(SendHeader(1, 4000), std::string(97, 'b'))));
  ExpectTerminate(*pair_, iwarp::fault::kMessageTooLong);
}

TEST_F(IwarpWire, AMessageThatChangesItsOpcodeEndsTheConnection) {
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(SendHeader(1, 0, false), "half")));
  SegmentHeader other = SendHeader(1, 4);
  other.opcode = Opcode::kSendInvalidate;
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(other, "half")));
  ExpectTerminate(*pair_, iwarp::fault::kUnexpectedOpcode);
}

TEST_F(IwarpWire, WhatCannotBeInvalidatedEndsTheConnection) {
  SegmentHeader header = SendHeader(1);
  header.opcode = Opcode::kSendInvalidate;
  header.stag = receive_.region->context();  // no peer was given it
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(header, "x")));
  ExpectTerminate(*pair_, iwarp::fault::kCannotInvalidate);
}

TEST_F(IwarpWire, AnInvalidatedContextNamesNothing) {
  SegmentHeader header = SendHeader(1);
  header.opcode = Opcode::kSendInvalidate;
  header.stag = target_.region->context();
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(header, "x")));
  ASSERT_TRUE(Await(Event::kReceive).has_value());
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(target_.Remote()), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kInvalidStag);
}

TEST_F(IwarpWire, AReadResponseMustMatchItsRequest) {
  struct Change {
    iwarp::FaultCode fault;
    std::function<void(SegmentHeader&, std::string&)> apply;
  };
  const Change changes[] = {
      {iwarp::fault::kInvalidStag, [](auto& h, auto&) { ++h.stag; }},
      {iwarp::fault::kBounds, [](auto& h, auto&) { ++h.to; }},
      {iwarp::fault::kBounds, [](auto&, auto& data) { data += "x"; }},
      {iwarp::fault::kBounds, [](auto&, auto& data) { data.pop_back(); }},  // short, and last
      {iwarp::fault::kBounds, [](auto& h, auto&) { h.last = false; }},      // whole, not last
  };
  for (const Change& change : changes) {
    Start();
    Release();
    Memory sink = NewMemory(*pair_->side.domain, 64, Access::kLocal);
    const Segment into = sink.All();
    for (int i = 0; i < 10; ++i) pair_->side.Poll();
    ASSERT_TRUE(pair_->side.endpoint->PostRdmaRead(5, {&into, 1}, {.target_address = 77, .context = 88}).ok());
    const ByteString ulpdu = pair_->peer->ReadUlpdu();
    ASSERT_EQ(ulpdu.size(), iwarp::kUntaggedHeaderBytes + iwarp::kReadRequestBytes);
    const iwarp::ReadRequest request = iwarp::DecodeReadRequest(
        std::span(ulpdu).subspan<iwarp::kUntaggedHeaderBytes, iwarp::kReadRequestBytes>());
    EXPECT_EQ(request.source_stag, 88u);
    EXPECT_EQ(request.source_to, 77u);
    EXPECT_EQ(request.size_bytes, 64u);
    SegmentHeader header = WriteHeader({.target_address = request.sink_to,
                                        .context = request.sink_stag});
    header.opcode = Opcode::kReadResponse;
    std::string data(64, 'r');
    change.apply(header, data);
    ASSERT_TRUE(WriteUlpdu(MakeUlpdu(header, data)));
    ExpectTerminate(*pair_, change.fault);
    const auto failed = pair_->side.Take(Event::kRdmaRead);
    ASSERT_TRUE(failed.has_value());
    EXPECT_FALSE(failed->status.ok());
  }
}

TEST_F(IwarpWire, ATerminateIsReportedAndNotAnswered) {
  SegmentHeader header = SendHeader(1);
  header.opcode = Opcode::kTerminate;
  header.qn = iwarp::kTerminateQueue;
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(header, FromHex("1100c0000012c1400000dead0000000000001000"))));
  EXPECT_TRUE(pair_->peer->AtEnd());
  const auto end = Await(Event::kDisconnected);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->status.code(), absl::StatusCode::kAborted);
  EXPECT_NE(end->status.message().find("invalid STag"), std::string::npos) << end->status;
}

// Shows DAFS-B.4-05
TEST_F(IwarpWire, ACloseBetweenMessagesIsOrderlyAndOneInAMessageIsNot) {
  pair_->peer->CloseWriting();
  auto end = Await(Event::kDisconnected);
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->status.ok()) << end->status;

  Start();
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(SendHeader(1, 0, false), "first half")));
  pair_->peer->CloseWriting();
  end = Await(Event::kDisconnected);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->status.code(), absl::StatusCode::kUnavailable);

  Start();
  ASSERT_TRUE(pair_->peer->Write(FromHex("003a41")));
  pair_->peer->CloseWriting();
  end = Await(Event::kDisconnected);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->status.code(), absl::StatusCode::kUnavailable);
}

TEST_F(IwarpWire, NothingIsPlacedBeforeTheCrcWasChecked) {
  Start({}, /*crc=*/true);
  ByteString fpdu = MakeFpdu(MakeUlpdu(WriteHeader(target_.Remote()), std::string(8000, 'x')), true);
  fpdu[5000] ^= std::byte{1};
  ASSERT_TRUE(pair_->peer->Write(fpdu));
  const ByteString ulpdu = pair_->peer->ReadUlpdu(true);
  EXPECT_EQ(ToHex(std::span(ulpdu).subspan(iwarp::kUntaggedHeaderBytes)), "20020000");
  EXPECT_EQ(target_.bytes, std::vector<std::byte>(8192));
}

}  // namespace
}  // namespace dafs::dat::testing
