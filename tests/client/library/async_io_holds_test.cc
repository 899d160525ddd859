// When memory is returned: against a scripted server that delays its replies, or never replies.
#include <cstring>
#include <memory>
#include <vector>

#include "client/library/async_io.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using wire::Proc;

constexpr uint32_t kBlock = 16384;

class AsyncHoldsTest : public ScriptedTest {
 protected:
  ~AsyncHoldsTest() override {
    if (files_ != nullptr) files_->Shutdown();
    io_.reset();
    group_.reset();
  }
  void StartIo() {
    MakeFiles();
    OpenRequest request;
    request.name = "file";
    request.owner = "owner";
    request.share_access = wire::kShareBoth;
    absl::StatusOr<OpenFile> open = Await(files_->opens().Open(user_, request));
    ASSERT_OK(open);
    file_.name = "file";
    file_.handle = open->handle;
    file_.state_id = open->state_id;
    auto handle = files_->buffers().user_memory().Register(memory_, MemoryAccess::kBoth);
    ASSERT_OK(handle);
    handle_ = *handle;
    io_ = std::make_unique<AsyncIo>(*files_, user_);
    group_ = std::make_unique<CompletionGroup>(*loop_);
  }
  IoId Issue(bool write, uint32_t size = kBlock) {
    const MemorySegment segment{memory_.data(), size, handle_};
    const FileRange range{0, size};
    auto id = write ? io_->Write(file_, {&segment, 1}, {&range, 1}, *group_)
                    : io_->Read(file_, {&segment, 1}, {&range, 1}, *group_);
    EXPECT_OK(id);
    return id.ok() ? *id : IoId();
  }
  // Makes the server keep each request without a reply.
  void Hold() { server_.hold = true; }
  bool Arrived(size_t count = 1) {
    return Until([&] { return server_.only().held.size() == count; });
  }
  IoCompletion Next() {
    IoCompletion end;
    EXPECT_EQ(group_->Wait({&end, 1}, absl::Seconds(30)), 1u);
    return end;
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(4 * kBlock);
  MemoryHandle handle_;
  IoFile file_;
  std::unique_ptr<AsyncIo> io_;
  std::unique_ptr<CompletionGroup> group_;
};

// After its first result, the client takes the others without a wait. A synchronous read waits each
// time. This is the reason of FAST03-5-04, not the processor time that it is about.
TEST_F(AsyncHoldsTest, OneWaitIsEnoughForAllReadsInFlight) {
  constexpr size_t kReads = 32;
  options_.max_requests = kReads;
  server_.max_requests = server_.target_nreq = kReads;
  StartIo();
  Hold();
  for (size_t i = 0; i < kReads; ++i) {
    Issue(false);
    ASSERT_TRUE(Arrived());
    const int before = server_.idle_arms;
    IoCompletion none;
    EXPECT_EQ(group_->Wait({&none, 1}, absl::Milliseconds(1)), 0u);
    EXPECT_GT(server_.idle_arms, before);
    server_.ServeHeld(server_.only());
    EXPECT_OK(Next().status);
  }
  for (size_t i = 0; i < kReads; ++i) Issue(false);
  ASSERT_TRUE(Arrived(kReads));
  server_.ServeHeld(server_.only());
  const int before = server_.idle_arms;
  for (size_t i = 0; i < kReads; ++i) EXPECT_OK(Next().status);
  EXPECT_EQ(server_.idle_arms, before);
}

// A part of FAST03-5-02: what the client posts and completes. Over TCP, which places the data in
// software, more bytes take longer.
TEST_F(AsyncHoldsTest, DirectReadOfAnySizeTakesTheSameTransportOperations) {
  memory_.resize(size_t{1} << 20);
  StartIo();
  const auto operations_of = [this](uint32_t size) {
    const int before = server_.operations;
    const int reads = server_.Count(Proc::kReadDirect);
    Issue(false, size);
    EXPECT_OK(Next().status);
    EXPECT_EQ(server_.Count(Proc::kReadDirect), reads + 1);
    EXPECT_EQ(memory_[size - 1], ScriptedByte(size - 1));
    return server_.operations - before;
  };
  const int least = operations_of(16384);
  EXPECT_GT(least, 0);
  for (const uint32_t size : {65536u, 262144u, 1048576u}) {
    EXPECT_EQ(operations_of(size), least) << size;
  }
}

class BothWays : public AsyncHoldsTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Ways, BothWays, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Write" : "Read"; });

TEST_P(BothWays, CancelledSentIoCompletesWithItsReply) {
  StartIo();
  Hold();
  const IoId id = Issue(GetParam());
  ASSERT_TRUE(Arrived());
  EXPECT_OK(io_->Cancel(id));
  Settle();
  EXPECT_EQ(group_->ended(), 0u);
  EXPECT_TRUE(absl::IsFailedPrecondition(files_->buffers().user_memory().Deregister(handle_)));
  server_.hold = false;
  server_.ServeHeld(server_.only());
  const IoCompletion end = Next();
  EXPECT_OK(end.status);  // all of it was executed
  EXPECT_EQ(end.count, kBlock);
  EXPECT_OK(files_->buffers().user_memory().Deregister(handle_));
}

TEST_P(BothWays, CancelledSentIoCompletesWithItsConnection) {
  StartIo();
  Hold();
  const IoId id = Issue(GetParam());
  ASSERT_TRUE(Arrived());
  EXPECT_OK(io_->Cancel(id));
  server_.hold = false;
  server_.refuse_connections = 1000;
  server_.only().Close(absl::OkStatus());
  const IoCompletion end = Next();  // without a new session
  EXPECT_TRUE(absl::IsCancelled(end.status)) << end.status;
  server_.refuse_connections = 0;
  ASSERT_TRUE(Until([&] { return server_.connections_made > 1; }));
  Settle();
  EXPECT_EQ(server_.Count(GetParam() ? Proc::kWriteDirect : Proc::kReadDirect), 1);
}

// Shows FAST03-3.1-12, DAFS-4.2.4-01: a hint about a file and its coming use, and one with each
// transfer. Shows DAFS-6.1.8-02 (the client's part).
TEST_F(AsyncHoldsTest, HintsReachTheServer) {
  StartIo();
  std::vector<wire::CacheHintArgs> hints;
  std::vector<uint32_t> with_data;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    switch (request.header.procedure) {
      case Proc::kCacheHint:
        hints.push_back(request.Decode<wire::CacheHintArgs>());
        c.Answer(request, wire::CacheHintRes());
        return true;
      case Proc::kReadDirect:
        with_data.push_back(request.Decode<wire::ReadDirectArgs>().cache_hint);
        return false;
      case Proc::kWriteDirect:
        with_data.push_back(request.Decode<wire::WriteDirectArgs>().cache_hint);
        return false;
      default:
        return false;
    }
  };
  EXPECT_OK(Await(files_->data().CacheHint(
      user_, file_.handle, 4096, 8192, wire::AccessPattern::kSequential,
      wire::kCacheHintPrefetch | wire::CacheHintRead(6) | wire::CacheHintWrite(2))));
  ASSERT_EQ(hints.size(), 1u);
  EXPECT_EQ(hints[0].offset, 4096u);
  EXPECT_EQ(hints[0].count, 8192u);
  EXPECT_EQ(hints[0].access_pattern, wire::AccessPattern::kSequential);
  EXPECT_EQ(hints[0].cache_hint, 0x01u | 6u << 1 | 2u << 4);
  const MemorySegment segment{memory_.data(), kBlock, handle_};
  const FileRange range{0, kBlock};
  IoOptions options;
  for (const uint32_t hint : {wire::CacheHintRead(7), wire::CacheHintRead(1)}) {
    options.cache_hint = hint;
    ASSERT_OK(io_->Read(file_, {&segment, 1}, {&range, 1}, *group_, options));
    EXPECT_OK(Next().status);
  }
  options.cache_hint = wire::CacheHintWrite(3);
  ASSERT_OK(io_->Write(file_, {&segment, 1}, {&range, 1}, *group_, options));
  EXPECT_OK(Next().status);
  EXPECT_THAT(with_data, ::testing::ElementsAre(7u << 1, 1u << 1, 3u << 4));
  server_.script = nullptr;
}

// The timeout of a soft client expires, but the server may still access the memory.
TEST_P(BothWays, TimeoutDoesNotReturnMemoryEarly) {
  options_.soft = true;
  options_.timeout = absl::Milliseconds(500);  // the open connects within it
  StartIo();
  Hold();
  Issue(GetParam());
  ASSERT_TRUE(Arrived());
  IoCompletion end;
  EXPECT_EQ(group_->Wait({&end, 1}, absl::Milliseconds(700)), 0u);
  EXPECT_EQ(group_->outstanding(), 1u);
  server_.hold = false;
  server_.ServeHeld(server_.only());
  end = Next();
  EXPECT_TRUE(absl::IsDeadlineExceeded(end.status)) << end.status;
}

// The server never replies. The memory is returned when the client disconnects.
TEST_P(BothWays, SilentServerIsDisconnected) {
  options_.soft = true;
  options_.timeout = absl::Seconds(1);  // the open connects within it
  options_.silence = absl::Milliseconds(1200);
  StartIo();
  Hold();
  Issue(GetParam());
  const IoCompletion end = Next();
  EXPECT_TRUE(absl::IsDeadlineExceeded(end.status)) << end.status;
  EXPECT_TRUE(server_.only().closed);
}

// A request that was not sent yet needs no reply.
TEST_P(BothWays, CancelledIoThatWaitsForSlotCompletesAtOnce) {
  server_.max_requests = server_.target_nreq = 2;
  StartIo();
  Hold();
  std::vector<IoId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(Issue(GetParam()));
  ASSERT_TRUE(Arrived(2));
  EXPECT_OK(io_->Cancel(ids[3]));
  EXPECT_EQ(group_->ended(), 1u);
  EXPECT_TRUE(absl::IsCancelled(Next().status));
  server_.hold = false;
  server_.ServeHeld(server_.only());
  for (int i = 0; i < 3; ++i) EXPECT_OK(Next().status);
  Settle();
  EXPECT_EQ(server_.Count(GetParam() ? Proc::kWriteDirect : Proc::kReadDirect), 3);
}

// If the I/O is larger than one request, its remaining requests are not issued.
TEST_P(BothWays, CancelledLargeIoIssuesNoFurtherRequests) {
  options_.read_bytes = options_.write_bytes = kBlock / 2;
  options_.inline_read_bytes = options_.inline_write_bytes = 1024;
  StartIo();
  Hold();
  const IoId id = Issue(GetParam(), 4 * kBlock);  // eight requests, four in parallel
  ASSERT_TRUE(Arrived(4));
  EXPECT_OK(io_->Cancel(id));
  server_.hold = false;
  server_.ServeHeld(server_.only());
  const IoCompletion end = Next();
  EXPECT_TRUE(absl::IsCancelled(end.status)) << end.status;
  EXPECT_EQ(end.count, 2 * kBlock);
  EXPECT_EQ(server_.Count(GetParam() ? Proc::kWriteDirect : Proc::kReadDirect), 4);
}

}  // namespace
}  // namespace dafs::client::testing
