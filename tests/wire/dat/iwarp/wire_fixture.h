// A live endpoint with a bare socket at the other end, and the segments that tests write to it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "tests/wire/dat/iwarp/raw_peer.h"
#include "wire/dat/iwarp/ddp.h"

namespace dafs::dat::testing {

using iwarp::Opcode;
using iwarp::SegmentHeader;

inline SegmentHeader SendHeader(uint32_t msn, uint32_t mo = 0, bool last = true) {
  SegmentHeader header;
  header.last = last;
  header.msn = msn;
  header.mo = mo;
  return header;
}

inline SegmentHeader WriteHeader(RemoteBuffer to, bool last = true) {
  SegmentHeader header;
  header.tagged = true;
  header.last = last;
  header.opcode = Opcode::kRdmaWrite;
  header.stag = to.context;
  header.to = to.target_address;
  return header;
}

inline ByteString ReadRequestUlpdu(uint32_t msn, const iwarp::ReadRequest& request) {
  SegmentHeader header = SendHeader(msn);
  header.opcode = Opcode::kReadRequest;
  header.qn = iwarp::kReadRequestQueue;
  std::array<std::byte, iwarp::kReadRequestBytes> payload;
  iwarp::EncodeReadRequest(request, payload.data());
  return MakeUlpdu(header, payload);
}

// Expects the next ULPDU to be a Terminate with this code, and then the end of the stream.
inline void ExpectTerminate(RawPair& pair, iwarp::FaultCode code, bool with_ddp = true,
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
  // Polls the endpoint until `event` was reported.
  std::optional<Completion> Await(Event event) {
    const absl::Time deadline = Loop::Now() + kPatience;
    while (pair_->side.Count(event) == 0 && Loop::Now() < deadline) pair_->side.Poll();
    return pair_->side.Take(event);
  }
  // Writes the first FPDU of the initiator. The responder may send only after it.
  void Release() { ASSERT_TRUE(WriteUlpdu(MakeUlpdu(WriteHeader({}), ""))); }

  std::unique_ptr<RawPair> pair_;  // owns the domain, which outlives its regions
  Memory receive_;
  Memory target_;
  Memory source_;
};

}  // namespace dafs::dat::testing
