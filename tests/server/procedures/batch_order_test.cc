// When the requests of batches run, in which order, and how their results are grouped. The session
// is busy while data of the client does not arrive: its RDMA-read Channel is not polled.
#include <cstring>

#include "tests/server/procedures/batch_fixture.h"

namespace dafs::server {
namespace {

using BatchOrderTest = BatchTest;

// Shows DAFS-6.5.5-06: the requests run at once, and all results are in the response.
TEST_F(BatchOrderTest, SynchronousBatchIgnoresWindowAndCompletionCount) {
  StartBusy();
  wire::BatchSubmitArgs batch =
      Batch({Item(wire::RwFlag::kRead, 1, 0, 10), Item(wire::RwFlag::kRead, 2, 10, 10, 10),
             Item(wire::RwFlag::kRead, 3, 20, 10, 20)},
            kHour, 2);
  batch.synchronous = true;
  ASSERT_TRUE(session_->SendRequest(batch));
  auto reply = session_->ReceiveReply<wire::BatchSubmitArgs>();
  ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
  ASSERT_EQ(reply.res.completions.size(), 3u);
  for (const auto& done : reply.res.completions) EXPECT_EQ(done.bytes_transferred, 10u);
  EXPECT_EQ(std::memcmp(memory_.bytes.data(), Pattern(30).data(), 30), 0);
  EXPECT_TRUE(NothingReported());
  // The count has not changed: a group of two would wait for the second result.
  EXPECT_EQ(Submit(Batch({Item(wire::RwFlag::kRead, 4, 0, 10),
                          Item(wire::RwFlag::kWrite, 5, 0, 10, 5000000)})),
            "DAFS_STATUS_OK");
  Collect(1);
  read_channel_polled_ = true;
  Collect(1);
}

// Shows DAFS-6.5.5-11: a request that is executed later than the next one of its batch delays
// neither that one nor its result, and a request that fails does not affect the others.
TEST_F(BatchOrderTest, RequestsOfBatchRunIndependently) {
  StartBusy();
  std::memset(memory_.bytes.data() + 5000000, 'n', 10);
  wire::RwRequest failing = Item(wire::RwFlag::kRead, 3, 0, 10, 100);
  failing.filehandle.fileid.bytes[7] ^= 0x33;
  EXPECT_EQ(Submit(Batch({Item(wire::RwFlag::kWrite, 1, 0, 10, 5000000),
                          Item(wire::RwFlag::kRead, 2, 0, 10), failing})),
            "DAFS_STATUS_OK");
  auto early = Collect(2);
  EXPECT_EQ(early[2].bytes_transferred, 10u);
  EXPECT_EQ(early[3].status, static_cast<uint32_t>(DafsStatus::kBadHandle));
  // It has read what was there before the write.
  EXPECT_EQ(std::memcmp(memory_.bytes.data(), Pattern(10).data(), 10), 0);
  EXPECT_TRUE(NothingReported());
  read_channel_polled_ = true;
  EXPECT_EQ(Collect(1)[1].bytes_transferred, 10u);
  EXPECT_EQ(ReadFile("a/f").substr(0, 10), "nnnnnnnnnn");
}

// Shows DAFS-6.5.5-12
TEST_F(BatchOrderTest, OneDirectiveReportsRequestsOfSeveralBatches) {
  StartBusy();
  EXPECT_EQ(Submit(Batch({Item(wire::RwFlag::kWrite, 1, 0, 10, 5000000),
                          Item(wire::RwFlag::kRead, 2, 0, 10)},
                         0, 3)),
            "DAFS_STATUS_OK");
  EXPECT_EQ(Submit(Batch({Item(wire::RwFlag::kRead, 3, 0, 10)})), "DAFS_STATUS_OK");
  EXPECT_TRUE(NothingReported());
  EXPECT_EQ(Submit(Batch({Item(wire::RwFlag::kRead, 4, 0, 10)})), "DAFS_STATUS_OK");
  auto all = Collect(3);
  EXPECT_EQ(sizes_, (std::vector<size_t>{3}));
  for (const uint64_t id : {2u, 3u, 4u}) EXPECT_EQ(all.count(id), 1u);
  read_channel_polled_ = true;
  Collect(1);
}

// Shows DAFS-5.2.3-01: one request of the batch is done and reported, and another is not.
TEST_F(BatchOrderTest, PartlyExecutedBatchHasNoEntryInTheResponseCache) {
  Start(/*read_channel=*/true);
  BindBackControl();
  read_channel_polled_ = false;
  const wire::RequestHeader header = session_->Header(3);
  const auto batch = Batch(
      {Item(wire::RwFlag::kRead, 1, 0, 10), Item(wire::RwFlag::kWrite, 2, 0, 10, 5000000)}, 0, 1);
  ASSERT_TRUE(session_->Send(session_->Encode(header, batch)));
  ASSERT_EQ(session_->ReceiveReply<wire::BatchSubmitArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_EQ(Collect(1)[1].bytes_transferred, 10u);
  const wire::SessionId lost = negotiated_.session_id;
  session_->Vanish();
  AwaitNoConnection();
  auto next = Session(ConnectArgs("batch"));
  wire::CheckResponseArgs check;
  check.session_id = lost;
  check.xid_stream = header.stream_id;
  check.xid_seq = header.seq_number;
  check.procedure = static_cast<uint32_t>(wire::Proc::kBatchSubmit);
  EXPECT_EQ(next->Call(check).name(), "DAFSERR_NOXID_MATCH");
}

}  // namespace
}  // namespace dafs::server
