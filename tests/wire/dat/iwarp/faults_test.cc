// A live endpoint against a peer that violates the protocol. Each fault is answered with its
// Terminate and ends only that connection.
#include <gtest/gtest.h>

#include <functional>

#include "tests/wire/dat/iwarp/wire_fixture.h"
#include "wire/dat/iwarp/transmit.h"

namespace dafs::dat::testing {
namespace {

using IwarpFaults = IwarpWire;

TEST_F(IwarpFaults, WriteNeedsTheWriteRight) {
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(source_.Remote()), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kAccessRights);
}

TEST_F(IwarpFaults, WriteToMemoryWithoutRemoteRightsIsRefused) {
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(receive_.Remote()), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kAccessRights);
}

TEST_F(IwarpFaults, WriteBeyondTheEndIsRefusedAndPlacesNothing) {
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(target_.Remote(8192 - 3)), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kBounds);
  EXPECT_EQ(target_.bytes, std::vector<std::byte>(8192));
}

TEST_F(IwarpFaults, WriteBeforeTheStartIsRefused) {
  RemoteBuffer to = target_.Remote();
  to.target_address -= 1;
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(to), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kBounds);
}

TEST_F(IwarpFaults, TargetAddressThatWrapsIsRefused) {
  RemoteBuffer to = target_.Remote();
  to.target_address = ~0ull - 1;
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(to), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kToWrap);
}

TEST_F(IwarpFaults, ContextWithAnotherKeyIsRefused) {
  RemoteBuffer to = target_.Remote();
  to.context ^= 0x10000;
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(to), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kInvalidStag);
}

TEST_F(IwarpFaults, ContextIsInvalidAfterItsRegionIsFreed) {
  const RemoteBuffer to = target_.Remote();
  target_.region.reset();
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(to), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kInvalidStag);
}

// Late data for an old buffer must not land in a new one: neither the key of a context, which is
// random, nor its slot is that of a region freed just now. Shows DDP-3.4-02.
TEST_F(IwarpFaults, ContextOfAFreedRegionIsNotUsedAgainAtOnce) {
  const uint32_t first = target_.Remote().context;
  for (int i = 0; i < 50; ++i) {
    target_.region.reset();
    target_ = NewMemory(*pair_->side.domain, 8192, Access::kRemoteWrite);
    ASSERT_NE(target_.Remote().context & 0xffff, first & 0xffff) << i;
  }
}

TEST_F(IwarpFaults, RegionFreedDuringAWriteIsNotTouched) {
  // The peer announces 6000 bytes and sends a part. The region is freed before the rest arrives.
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

TEST_F(IwarpFaults, ReadWithoutTheRightIsRefusedAndRepeatedInTheTerminate) {
  const RemoteBuffer from = target_.Remote();  // no read right
  ASSERT_TRUE(WriteUlpdu(ReadRequestUlpdu(1, {.sink_stag = 1,
                                              .sink_to = 2,
                                              .size_bytes = 3,
                                              .source_stag = from.context,
                                              .source_to = from.target_address})));
  ExpectTerminate(*pair_, iwarp::fault::kAccessRights, true, true);
}

TEST_F(IwarpFaults, ReadBeyondTheEndIsRefused) {
  const RemoteBuffer from = source_.Remote(8000);
  ASSERT_TRUE(WriteUlpdu(ReadRequestUlpdu(1, {.sink_stag = 1,
                                              .sink_to = 2,
                                              .size_bytes = 193,
                                              .source_stag = from.context,
                                              .source_to = from.target_address})));
  ExpectTerminate(*pair_, iwarp::fault::kReadBounds, true, true);
}

TEST_F(IwarpFaults, MoreReadsThanTheInboundLimitAreRefused) {
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

TEST_F(IwarpFaults, MessageWithoutAReceiveEndsTheConnection) {
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(SendHeader(1), "fits")));
  ASSERT_TRUE(Await(Event::kReceive).has_value());
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(SendHeader(2), "no buffer")));
  ExpectTerminate(*pair_, iwarp::fault::kNoBuffer);
}

TEST_F(IwarpFaults, MessageLongerThanItsReceiveEndsTheConnection) {
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(SendHeader(1, 0, false), std::string(4000, 'a'))));
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(SendHeader(1, 4000), std::string(97, 'b'))));
  ExpectTerminate(*pair_, iwarp::fault::kMessageTooLong);
}

TEST_F(IwarpFaults, MessageThatChangesItsOpcodeEndsTheConnection) {
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(SendHeader(1, 0, false), "half")));
  SegmentHeader other = SendHeader(1, 4);
  other.opcode = Opcode::kSendInvalidate;
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(other, "half")));
  ExpectTerminate(*pair_, iwarp::fault::kUnexpectedOpcode);
}

TEST_F(IwarpFaults, InvalidationOfALocalContextEndsTheConnection) {
  SegmentHeader header = SendHeader(1);
  header.opcode = Opcode::kSendInvalidate;
  header.stag = receive_.region->context();  // never given to a peer
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(header, "x")));
  ExpectTerminate(*pair_, iwarp::fault::kCannotInvalidate);
}

TEST_F(IwarpFaults, InvalidatedContextIsRefused) {
  SegmentHeader header = SendHeader(1);
  header.opcode = Opcode::kSendInvalidate;
  header.stag = target_.region->context();
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(header, "x")));
  ASSERT_TRUE(Await(Event::kReceive).has_value());
  ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader(target_.Remote()), "data")));
  ExpectTerminate(*pair_, iwarp::fault::kInvalidStag);
}

TEST_F(IwarpFaults, ReadResponseMustMatchItsRequest) {
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
    ASSERT_TRUE(
        pair_->side.endpoint->PostRdmaRead(5, {&into, 1}, {.target_address = 77, .context = 88})
            .ok());
    const ByteString ulpdu = pair_->peer->ReadUlpdu();
    ASSERT_EQ(ulpdu.size(), iwarp::kUntaggedHeaderBytes + iwarp::kReadRequestBytes);
    const iwarp::ReadRequest request = iwarp::DecodeReadRequest(
        std::span(ulpdu).subspan<iwarp::kUntaggedHeaderBytes, iwarp::kReadRequestBytes>());
    EXPECT_EQ(request.source_stag, 88u);
    EXPECT_EQ(request.source_to, 77u);
    EXPECT_EQ(request.size_bytes, 64u);
    SegmentHeader header =
        WriteHeader({.target_address = request.sink_to, .context = request.sink_stag});
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

}  // namespace
}  // namespace dafs::dat::testing
