// Batches of the application against the real server, with and without a Back-control Channel.
#include "client/library/batch_io.h"

#include "tests/client/library/async_fixture.h"

namespace dafs::client {
namespace {

struct Way {
  const char* name;
  bool back_control;
  Windows windows;
};

class BatchIoTest : public AsyncTest, public testing::WithParamInterface<Way> {
 protected:
  void SetUp() override {
    AsyncTest::SetUp();
    if (testing::Test::IsSkipped()) return;
    ClientOptions options = Options();
    options.back_control_channel = GetParam().back_control;
    options.windows = GetParam().windows;
    StartIo(std::move(options));
    batches_ = std::make_unique<BatchIo>(*files_, root_user_);
  }
  void TearDown() override {
    if (files_ != nullptr) files_->Shutdown();
    batches_.reset();
    AsyncTest::TearDown();
  }
  // Over RDMA the device decides.
  bool by_windows() const { return files_->Report().session.memory_by_windows; }

  std::unique_ptr<BatchIo> batches_;
};
INSTANTIATE_TEST_SUITE_P(Ways, BatchIoTest,
                         testing::Values(Way{"BackControl", true, Windows::kOff},
                                         Way{"AnswersOnly", false, Windows::kOff},
                                         Way{"AnswersOnlyWindows", false, Windows::kOn}),
                         [](const auto& info) { return std::string(info.param.name); });

// Shows FAST03-4-15, FAST03-4-16, FAST03-3.1-10. Shows FAST03-4-05: with windows, the transfers use
// windows of exactly the memory that the application named.
TEST_P(BatchIoTest, OneCallTransfersManyChunksOfTwoFiles) {
  const std::string content = RandomText(400'000, 1);
  std::unique_ptr<IoFile> a = OpenIo("a", content);
  std::unique_ptr<IoFile> b = OpenIo("b", "");
  Pages memory(1 << 20);
  const MemoryHandle handle = Register(memory);
  std::byte* const base = memory.data();
  // 100 reads of three ranges each, into two segments; 20 writes.
  std::vector<std::array<MemorySegment, 2>> segments(120);
  std::vector<std::array<FileRange, 3>> ranges(120);
  std::vector<BatchIoRequest> requests;
  for (uint32_t i = 0; i < 120; ++i) {
    const bool write = i >= 100;
    segments[i] = {{{base + i * 4000, 1500, handle}, {base + i * 4000 + 1501, 1500, handle}}};
    if (write) {
      ranges[i] = {{{(i - 100) * 3000, 1000},
                    {(i - 100) * 3000 + 1000, 1000},
                    {(i - 100) * 3000 + 2000, 1000}}};
      std::memset(base + i * 4000, 'a' + static_cast<int>(i - 100), 3001);
    } else {
      ranges[i] = {{{i * 37, 1000}, {i * 41 + 100'000, 1}, {i * 43 + 200'000, 1999}}};
    }
    requests.push_back({write, write ? b.get() : a.get(), segments[i], ranges[i], i, 0});
  }
  auto ids = batches_->Submit(requests, *group_);
  ASSERT_STATUS_OK(ids);
  EXPECT_EQ(ids->size(), 120u);
  EXPECT_EQ(a->outstanding, 100u);
  EXPECT_TRUE(absl::IsFailedPrecondition(files_->buffers().user_memory().Deregister(handle)));
  std::vector<bool> seen(120, false);
  for (uint64_t i = 0; i < 120; ++i) {
    const IoCompletion end = Next();
    ASSERT_STATUS_OK(end.status);
    if (by_windows()) {  // two windows of its own, which no reply invalidates
      EXPECT_GE(files_->Report().session.windows_ended, 2 * (i + 1));
    }
    EXPECT_EQ(end.count, 3000u);
    EXPECT_EQ(end.id, (*ids)[end.cookie]);
    EXPECT_FALSE(seen[end.cookie]);
    seen[end.cookie] = true;
  }
  for (uint32_t i = 0; i < 100; ++i) {
    std::string expected;
    for (const FileRange& range : ranges[i]) expected += content.substr(range.offset, range.size);
    EXPECT_EQ(memory.Text(i * 4000, 1500) + memory.Text(i * 4000 + 1501, 1500), expected) << i;
  }
  std::string expected;
  for (char c = 'a'; c < 'a' + 20; ++c) expected += std::string(3000, c);
  EXPECT_EQ(LocalContent("b"), expected);
  EXPECT_EQ(a->outstanding + b->outstanding, 0u);
  EXPECT_STATUS_OK(files_->buffers().user_memory().Deregister(handle));
  CloseIo(*a);
  CloseIo(*b);
  if (by_windows()) {
    EXPECT_EQ(files_->Report().session.windows_ended, 240u);
    EXPECT_EQ(files_->Report().session.windows_bound, 240u);
  }
}

// The batch needs more windows than exist. An item without a free window waits until others end.
TEST_P(BatchIoTest, LongSegmentListsWaitForFreeWindows) {
  constexpr uint32_t kSegments = 100;
  constexpr uint32_t kItems = 12;
  const std::string content = RandomText(kItems * kSegments * 50, 5);
  std::unique_ptr<IoFile> file = OpenIo("file", content);
  Pages memory(1 << 20);
  const MemoryHandle handle = Register(memory);
  std::vector<std::vector<MemorySegment>> segments(kItems);
  std::vector<FileRange> ranges;
  std::vector<BatchIoRequest> requests;
  for (uint32_t i = 0; i < kItems; ++i) {
    for (uint32_t k = 0; k < kSegments; ++k) {
      segments[i].push_back({memory.data() + (i * kSegments + k) * 60, 50, handle});
    }
    ranges.push_back({uint64_t{i} * kSegments * 50, kSegments * 50});
  }
  for (uint32_t i = 0; i < kItems; ++i) {
    requests.push_back({false, file.get(), segments[i], {&ranges[i], 1}, i, 0});
  }
  auto ids = batches_->Submit(requests, *group_);
  ASSERT_STATUS_OK(ids);
  auto ends = batches_->Run({requests.data(), 3});  // in parallel with the first batch
  ASSERT_STATUS_OK(ends);
  for (uint32_t i = 0; i < kItems; ++i) {
    const IoCompletion end = Next();
    ASSERT_STATUS_OK(end.status);
    EXPECT_EQ(end.count, kSegments * 50);
  }
  for (uint32_t k = 0; k < kItems * kSegments; ++k) {
    ASSERT_EQ(memory.Text(k * 60, 50), content.substr(k * 50, 50)) << k;
  }
  CloseIo(*file);
}

TEST_P(BatchIoTest, SynchronousBatchReturnsResultsInOrder) {
  const std::string content = RandomText(100'000, 2);
  std::unique_ptr<IoFile> file = OpenIo("file", content);
  Pages memory(1 << 16);
  const MemoryHandle handle = Register(memory);
  const MemorySegment one[] = {{memory.data(), 5000, handle}};
  const MemorySegment two[] = {{memory.data() + 8192, 5000, handle}};
  const FileRange whole[] = {{10, 5000}};
  const FileRange beyond[] = {{98'000, 5000}};
  IoFile directory;
  directory.name = "directory";
  directory.handle = root_.handle;
  const BatchIoRequest requests[] = {{false, file.get(), one, whole, 7, 0},
                                     {true, &directory, one, whole, 8, 0},
                                     {false, file.get(), two, beyond, 9, 0}};
  auto ends = batches_->Run(requests);
  ASSERT_STATUS_OK(ends);
  ASSERT_EQ(ends->size(), 3u);
  EXPECT_STATUS_OK((*ends)[0].status);
  EXPECT_EQ((*ends)[0].cookie, 7u);
  EXPECT_FALSE((*ends)[1].status.ok());
  EXPECT_THAT(std::string((*ends)[1].status.message()),
              testing::StartsWith("127.0.0.1:/data: batch I/O of directory: "));
  EXPECT_STATUS_OK((*ends)[2].status);
  EXPECT_EQ((*ends)[2].count, 2000u);
  EXPECT_EQ(memory.Text(0, 5000), content.substr(10, 5000));
  CloseIo(*file);
}

TEST_P(BatchIoTest, DelayedItemsCanBeExpeditedOrCancelled) {
  std::unique_ptr<IoFile> file = OpenIo("file", RandomText(100'000, 3));
  Pages memory(1 << 16);
  const MemoryHandle handle = Register(memory);
  const MemorySegment segment[] = {{memory.data(), 5000, handle}};
  const FileRange range[] = {{0, 5000}};
  const BatchIoRequest request[] = {{false, file.get(), segment, range, 0, 0}};
  BatchOptions options;
  options.window = absl::Minutes(1);
  auto ids = batches_->Submit(request, *group_, options);
  ASSERT_STATUS_OK(ids);
  const absl::Status cancelled = batches_->Cancel((*ids)[0]);
  if (cancelled.ok()) {
    EXPECT_TRUE(absl::IsCancelled(Next().status));
    ids = batches_->Submit(request, *group_, options);
    ASSERT_STATUS_OK(ids);
  } else {
    EXPECT_TRUE(absl::IsFailedPrecondition(cancelled)) << cancelled;
  }
  for (int i = 0; i < 10; ++i) loop_->RunOnce(absl::Milliseconds(1));
  const absl::Status hurried = batches_->HurryUp((*ids)[0]);
  EXPECT_TRUE(hurried.ok() || absl::IsNotFound(hurried)) << hurried;
  EXPECT_STATUS_OK(Next().status);
  EXPECT_TRUE(absl::IsNotFound(batches_->Cancel((*ids)[0])));
  CloseIo(*file);
}

TEST_P(BatchIoTest, BatchNeedsRegisteredMemory) {
  std::unique_ptr<IoFile> file = OpenIo("file", RandomText(100'000, 4));
  Pages memory(1 << 16);
  const MemorySegment segment[] = {{memory.data(), 5000, {}}};
  const FileRange range[] = {{0, 5000}};
  const BatchIoRequest request[] = {{false, file.get(), segment, range, 0, 0}};
  EXPECT_TRUE(absl::IsInvalidArgument(batches_->Submit(request, *group_).status()));
  EXPECT_EQ(group_->outstanding(), 0u);
  CloseIo(*file);
}

}  // namespace
}  // namespace dafs::client
