// Parsing of the requests in io_uring entries, and which worker serves which queue.
#include "fuse/kernel/rings/ring_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "fuse/kernel/rings/ring_plan.h"

namespace dafs::fuse {
namespace {

using testing::ElementsAre;

constexpr uint32_t kPayloadRoom = 8192;

// An entry as the kernel fills it, with `payload_bytes` of name (LOOKUP) or data (WRITE).
class Filled {
 public:
  Filled(uint32_t opcode, uint32_t operation_bytes, uint32_t payload_bytes) {
    in.len = static_cast<uint32_t>(sizeof(in)) + operation_bytes + payload_bytes;
    in.opcode = opcode;
    in.unique = 18;
    in.nodeid = 1;
    header.ring_ent_in_out.commit_id = 18;
    header.ring_ent_in_out.payload_sz = payload_bytes;
  }

  std::optional<RingRequest> Parse() {
    std::memcpy(header.in_out, &in, sizeof(in));
    return ParseRingRequest(header, payload);
  }

  fuse_in_header in = {};
  UringReqHeader header = {};
  std::vector<std::byte> payload = std::vector<std::byte>(kPayloadRoom);
};

TEST(ParseRingRequest, FindsTheStructureAndThePayload) {
  Filled write(FUSE_WRITE, sizeof(fuse_write_in), 6);
  std::optional<RingRequest> request = write.Parse();
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->header.opcode, static_cast<uint32_t>(FUSE_WRITE));
  EXPECT_EQ(request->header.unique, 18u);
  EXPECT_EQ(request->operation.data(), write.header.op_in);
  EXPECT_EQ(request->operation.size(), sizeof(fuse_write_in));
  EXPECT_EQ(request->payload.data(), write.payload.data());
  EXPECT_EQ(request->payload.size(), 6u);
}

TEST(ParseRingRequest, EitherPartMayBeEmptyOrFull) {
  for (uint32_t operation : {uint32_t{0}, uint32_t{kUringOperationBytes}}) {
    for (uint32_t payload : {0u, kPayloadRoom}) {
      Filled filled(FUSE_LOOKUP, operation, payload);
      std::optional<RingRequest> request = filled.Parse();
      ASSERT_TRUE(request.has_value());
      EXPECT_EQ(request->operation.size(), operation);
      EXPECT_EQ(request->payload.size(), payload);
    }
  }
}

TEST(ParseRingRequest, RefusesAPayloadLargerThanItsBuffer) {
  for (uint32_t payload : {kPayloadRoom + 1, std::numeric_limits<uint32_t>::max() - 40}) {
    EXPECT_FALSE(Filled(FUSE_WRITE, 0, payload).Parse().has_value()) << payload;
  }
}

TEST(ParseRingRequest, RefusesLengthsThatDoNotFitTheirParts) {
  Filled filled(FUSE_WRITE, sizeof(fuse_write_in), 6);
  const uint32_t least = sizeof(fuse_in_header) + 6;
  for (uint32_t length :
       {uint32_t{0}, uint32_t{39}, least - 1, least + uint32_t{kUringOperationBytes} + 1,
        std::numeric_limits<uint32_t>::max()}) {
    filled.in.len = length;
    EXPECT_FALSE(filled.Parse().has_value()) << length;
  }
  for (uint32_t length : {least, least + uint32_t{kUringOperationBytes}}) {
    filled.in.len = length;
    EXPECT_TRUE(filled.Parse().has_value()) << length;
  }
}

TEST(ParseRingRequest, RefusesARequestWithAnotherCommitId) {
  Filled filled(FUSE_GETATTR, sizeof(fuse_getattr_in), 0);
  filled.header.ring_ent_in_out.commit_id = 20;
  EXPECT_FALSE(filled.Parse().has_value());
}

TEST(RingPlan, EachQueueHasAWorkerAndEachWorkerAQueue) {
  RingPlan plan;
  plan.queues = 5;
  plan.workers = 2;
  EXPECT_THAT(plan.QueuesOf(0), ElementsAre(0, 2, 4));
  EXPECT_THAT(plan.QueuesOf(1), ElementsAre(1, 3));
  plan.queues = 2;
  plan.workers = 5;
  for (uint16_t worker = 0; worker < 5; ++worker) {
    EXPECT_THAT(plan.QueuesOf(worker), ElementsAre(worker % 2)) << worker;
  }
}

TEST(RingPlan, TheMachineHasAtLeastOneCpu) { EXPECT_GE(PossibleCpus(), 1u); }

}  // namespace
}  // namespace dafs::fuse
