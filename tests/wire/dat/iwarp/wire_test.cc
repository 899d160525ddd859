// A live endpoint against a bare socket: each byte it sends, and the forms it accepts.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

#include "tests/wire/dat/iwarp/wire_fixture.h"

namespace dafs::dat::testing {
namespace {

// Each segment has the four elements of DDP: the last flag, the number of the message (32 bits),
// the steering tag and the offset. Shows DDP-2.2-01, DDP-2.2-05, DDP-2.2-06, DDP-2.2-07.
TEST_F(IwarpWire, SendsExactlyTheBytesOfTheVectors) {
  Release();
  Memory memory = NewMemory(*pair_->side.domain, 64, Access::kLocal);
  const ByteString payload =
      FromHex("53464144010000001000000004003401010203040506070800000000000000008400000028000000");
  std::copy(payload.begin(), payload.end(), memory.bytes.begin());
  const Segment whole = memory.At(0, payload.size());
  Endpoint& endpoint = *pair_->side.endpoint;
  ASSERT_TRUE(endpoint.PostSend(1, {&whole, 1}, {}).ok());
  EXPECT_EQ(ToHex(pair_->peer->Read(64)),
            "003a4143000000000000000000000001000000005346414401000000100000000400340101020304050607"
            "080000000000000000840000002800000000000000");
  // Two empty messages, from no segment and from an empty one, bring the MSN to 4.
  ASSERT_TRUE(endpoint.PostSend(2, {}, {}).ok());
  const Segment empty = memory.At(3, 0);
  ASSERT_TRUE(endpoint.PostSend(3, {&empty, 1}, {}).ok());
  EXPECT_EQ(ToHex(pair_->peer->Read(48)),
            "001241430000000000000000000000020000000000000000"
            "001241430000000000000000000000030000000000000000");
  ASSERT_TRUE(
      endpoint.PostSend(4, {&whole, 1}, {.signaled = true, .invalidate_context = 66051}).ok());
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

TEST_F(IwarpWire, ResponderSendsNothingBeforeTheFirstFpdu) {
  const Segment some = source_.At(0, 4);
  ASSERT_TRUE(pair_->side.endpoint->PostSend(1, {&some, 1}, {}).ok());
  for (int i = 0; i < 100; ++i) pair_->side.Poll();
  EXPECT_EQ(pair_->side.Count(Event::kSend), 0u);
  std::byte byte;
  EXPECT_LT(recv(pair_->peer->fd(), &byte, 1, MSG_DONTWAIT), 0);
  Release();
  EXPECT_EQ(pair_->peer->ReadUlpdu().size(), iwarp::kUntaggedHeaderBytes + 4);
}

// Shows DDP-2-02, DDP-2.2-02.
TEST_F(IwarpWire, AcceptsAMessageInOneByteSegmentsAndPieces) {
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

TEST_F(IwarpWire, AcceptsSolicitedFormsAsPlainOnes) {
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

// Shows DDP-2.1-02, DDP-2.1-03.
TEST_F(IwarpWire, AnswersAReadInFpdusThatFitATcpSegment) {
  // This needs a longer source, so it makes another pair.
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

// Shows DDP-3-05, DDP-3-06.
TEST_F(IwarpWire, PlacesNothingOfAMessageThatWasDelivered) {
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(SendHeader(1), "first")));
  ASSERT_TRUE(Await(Event::kReceive).has_value());
  ASSERT_TRUE(pair_->side.endpoint->PostReceive(2, receive_.All()).ok());
  const std::vector<std::byte> before = receive_.bytes;
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(SendHeader(1), "again")));
  ExpectTerminate(*pair_, iwarp::fault::kMsnRange);
  EXPECT_EQ(receive_.bytes, before);
}

TEST_F(IwarpWire, ZeroLengthWritesAndReadsNameNoMemory) {
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader({.target_address = ~0ull, .context = 12}), "")));
  ASSERT_TRUE(WriteUlpdu(ReadRequestUlpdu(1, {.sink_stag = 9, .sink_to = 8})));
  EXPECT_EQ(ToHex(pair_->peer->ReadUlpdu()), "c142000000090000000000000008");
}

TEST_F(IwarpWire, TerminateIsReportedAndNotAnswered) {
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
TEST_F(IwarpWire, CloseIsOrderlyBetweenMessagesButNotInAMessage) {
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

TEST_F(IwarpWire, NothingIsPlacedBeforeTheCrcCheck) {
  Start({}, /*crc=*/true);
  ByteString fpdu =
      MakeFpdu(MakeUlpdu(WriteHeader(target_.Remote()), std::string(8000, 'x')), true);
  fpdu[5000] ^= std::byte{1};
  ASSERT_TRUE(pair_->peer->Write(fpdu));
  const ByteString ulpdu = pair_->peer->ReadUlpdu(true);
  EXPECT_EQ(ToHex(std::span(ulpdu).subspan(iwarp::kUntaggedHeaderBytes)), "20020000");
  EXPECT_EQ(target_.bytes, std::vector<std::byte>(8192));
}

}  // namespace
}  // namespace dafs::dat::testing
