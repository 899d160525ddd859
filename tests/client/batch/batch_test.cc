// Batches against the real server: results in the reply, results by the Back-control Channel, and
// recovery from the end of a session.
#include "client/batch/batch.h"

#include <map>
#include <optional>
#include <set>

#include "tests/client/batch/recording_provider.h"
#include "tests/client/damaging_provider.h"
#include "tests/client/server_fixture.h"

namespace dafs::client {
namespace {

struct Variant {
  const char* name;
  wire::ByteOrder order;
  bool checksums;
  bool back_control;
  Windows windows = Windows::kOff;
};

class BatchTest : public ServerTest, public testing::WithParamInterface<Variant> {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (testing::Test::IsSkipped()) return;
    ClientOptions options = Options();
    options.byte_order = GetParam().order;
    options.checksums = GetParam().checksums;
    options.back_control_channel = GetParam().back_control;
    options.windows = GetParam().windows;
    StartClient(std::move(options));
  }
  void TearDown() override {
    StopClient();
    ServerTest::TearDown();
  }

  void StartClient(ClientOptions options) {
    ServerTest::StartClient(std::move(options));
    if (files_ != nullptr) batches_.emplace(*files_);
  }
  void StopClient() {
    if (files_ != nullptr) RunUntilDone(*loop_, files_->Disconnect());
    batches_.reset();
    ServerTest::StopClient();
  }

  static std::string Pattern(size_t size, unsigned seed = 0) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 131 + i / 253 + seed);
    return text;
  }

  OpenFile OpenFor(const std::string& name, bool create = false) {
    OpenRequest request;
    request.directory = root_.handle;
    request.name = name;
    request.share_access = wire::kShareRead | wire::kShareWrite;
    request.owner = "owner of " + name;
    request.create = create;
    request.attributes.set(wire::kFattrMode);
    request.attributes.mode = 0644;
    absl::StatusOr<OpenFile> open = Await(files_->opens().Open(root_user_, request));
    EXPECT_STATUS_OK(open);
    return open.ok() ? *std::move(open) : OpenFile();
  }

  // The memory of an item; it must outlive the item.
  struct Memory {
    std::unique_ptr<BufferLease> lease;  // `data` holds its address
    std::unique_ptr<LeaseBatchData> data;
    std::byte* at() { return lease->payload(); }
    std::string text(size_t size) const {
      return std::string(reinterpret_cast<const char*>(lease->payload()), size);
    }
  };
  Memory NewMemory(BufferUse use, uint32_t size) {
    Memory memory;
    memory.lease = std::make_unique<BufferLease>(Lease(use, size));
    memory.data = std::make_unique<LeaseBatchData>(
        LeasePart{&files_->buffers(), memory.lease.get(), 0, size});
    return memory;
  }

  // Records the results.
  struct Sink final : BatchSink {
    void OnBatchDone(uint64_t cookie, const BatchResult& result) override {
      EXPECT_TRUE(results.emplace(cookie, result).second) << "reported twice: " << cookie;
    }
    std::map<uint64_t, BatchResult> results;
  };
  void AwaitResults(const Sink& sink, size_t count) {
    const absl::Time deadline = Loop::Now() + absl::Seconds(60);
    while (sink.results.size() < count && Loop::Now() < deadline) {
      loop_->RunOnce(absl::Milliseconds(100));
    }
    ASSERT_EQ(sink.results.size(), count);
  }

  static BatchItem Item(wire::RwFlag flag, const OpenFile& file, const BatchData& data,
                        std::initializer_list<wire::FileChunk> chunks, uint64_t cookie = 0) {
    BatchItem item;
    item.rw_flag = flag;
    item.file = file.handle;
    item.state_id = file.state_id;
    item.chunks.assign(chunks.begin(), chunks.end());
    item.data = &data;
    item.cookie = cookie;
    return item;
  }

  std::optional<Batches> batches_;
};

// Shows DAFS-6.5.5-01, DAFS-6.5.5-04, DAFS-6.5.5-05, R88. Also: a read stops at the end of the
// file, and an error affects one item only.
TEST_P(BatchTest, OneRequestReadsAndWritesManyFiles) {
  const std::string content = Pattern(200000);
  MakeLocal("a", content);
  const OpenFile a = OpenFor("a");
  const OpenFile b = OpenFor("b", /*create=*/true);
  Memory read = NewMemory(BufferUse::kReadTarget, 150003);
  Memory tail = NewMemory(BufferUse::kReadTarget, 1000);
  Memory write = NewMemory(BufferUse::kWriteSource, 50000);
  const std::string fresh = Pattern(50000, 7);
  std::memcpy(write.at(), fresh.data(), fresh.size());
  OpenFile nowhere = b;
  nowhere.handle.fileid.bytes[5] ^= 0x55;
  const BatchItem items[] = {
      Item(wire::RwFlag::kRead, a, *read.data,
           {{.offset = 100, .byte_count = 3}, {.offset = 7, .byte_count = 150000}}),
      Item(wire::RwFlag::kWrite, b, *write.data,
           {{.offset = 20000, .byte_count = 30000}, {.offset = 0, .byte_count = 20000}}),
      Item(wire::RwFlag::kRead, a, *tail.data,
           {{.offset = 199990, .byte_count = 500}, {.offset = 0, .byte_count = 500}}),
      Item(wire::RwFlag::kWrite, nowhere, *write.data, {{.offset = 0, .byte_count = 50000}}),
  };
  const auto results = Await(batches_->Run(root_user_, items));
  ASSERT_STATUS_OK(results);
  ASSERT_EQ(results->size(), 4u);
  EXPECT_STATUS_OK((*results)[0].status);
  EXPECT_EQ((*results)[0].bytes_transferred, 150003u);
  EXPECT_TRUE(read.text(150003) == content.substr(100, 3) + content.substr(7, 150000));
  EXPECT_STATUS_OK((*results)[1].status);
  EXPECT_EQ((*results)[1].bytes_transferred, 50000u);
  EXPECT_TRUE(LocalContent("b") == fresh.substr(30000) + fresh.substr(0, 30000));
  EXPECT_STATUS_OK((*results)[2].status);
  EXPECT_EQ((*results)[2].bytes_transferred, 10u);
  EXPECT_EQ(tail.text(10), content.substr(199990));
  EXPECT_EQ(wire::DafsFromStatus((*results)[3].status), wire::DafsStatus::kBadHandle);
  EXPECT_EQ(batches_->counts().submitted, 1u);
  EXPECT_EQ(batches_->counts().outstanding, 0u);
}

// Items that exceed the size of a request or response go in the next message.
// 4.4.1.4. A batch is complete only when its data is in the file, and so is an abort.
TEST_P(BatchTest, ItemsUnderAnAutoRecoveryLockAreUndone) {
  const std::string content = Pattern(200000);
  MakeLocal("a", content);
  const OpenFile a = OpenFor("a");
  const LockOwner owner{a.handle, a.state_id, 1};
  const wire::LockRange range{0, 99999, /*write=*/true};
  auto locked =
      Await(files_->locks().Lock(root_user_, owner, range, nullptr, {.auto_recovery = true}));
  ASSERT_STATUS_OK(locked);
  Memory write = NewMemory(BufferUse::kWriteSource, 50000);
  std::memset(write.at(), '*', 50000);
  const BatchItem items[] = {
      Item(wire::RwFlag::kWrite, a, *write.data,
           {{.offset = 1000, .byte_count = 20000}, {.offset = 70000, .byte_count = 30000}})};
  auto results = Await(batches_->Run(root_user_, items));
  ASSERT_STATUS_OK(results);
  ASSERT_STATUS_OK((*results)[0].status);
  EXPECT_EQ(LocalContent("a").substr(1000, 20000), std::string(20000, '*'));
  ASSERT_STATUS_OK(Await(files_->locks().Abort(root_user_, owner, range)));
  EXPECT_EQ(LocalContent("a"), content);
  ASSERT_STATUS_OK(Await(files_->locks().Unlock(root_user_, owner, 0, 99999)));
}

TEST_P(BatchTest, ItemsBeyondOneMessageGoInTheNext) {
  MakeLocal("a", std::string(4000, 'x'));  // all reads have the same target
  const OpenFile a = OpenFor("a");
  Memory memory = NewMemory(BufferUse::kReadTarget, 4);
  std::vector<BatchItem> items;
  for (uint32_t i = 0; i < 600; ++i) {
    items.push_back(Item(wire::RwFlag::kRead, a, *memory.data, {{.offset = i, .byte_count = 4}}));
  }
  const auto results = Await(batches_->Run(root_user_, items));
  ASSERT_STATUS_OK(results);
  for (const BatchResult& result : *results) {
    EXPECT_STATUS_OK(result.status);
    EXPECT_EQ(result.bytes_transferred, 4u);
  }
  EXPECT_GE(batches_->counts().submitted, 3u);
  EXPECT_LE(batches_->counts().submitted, 8u);
}

// Shows DAFS-6.5.5-02: of all batches of the session, by Run and by Submit, and also while earlier
// items are outstanding.
TEST_P(BatchTest, RequestIdsAreUniqueInTheSession) {
  MakeLocal("a", std::string(4000, 'x'));  // all reads have the same target
  StopClient();
  RecordingProvider recording(*provider_, GetParam().order);
  ClientOptions options = Options();
  options.byte_order = GetParam().order;
  options.checksums = GetParam().checksums;
  options.back_control_channel = GetParam().back_control;
  options.windows = GetParam().windows;
  options.providers = {&recording};
  StartClient(std::move(options));
  const OpenFile a = OpenFor("a");
  Memory memory = NewMemory(BufferUse::kReadTarget, 4);
  Sink sink;
  size_t count = 0;
  const auto reads = [&](size_t size) {
    std::vector<BatchItem> items;
    for (size_t i = 0; i < size; ++i) {
      items.push_back(Item(wire::RwFlag::kRead, a, *memory.data, {{.byte_count = 4}}, count++));
    }
    return items;
  };
  size_t submitted = 0, run = 0;
  for (size_t round = 1; round <= 4; ++round) {
    for (size_t i = 0; i < 3; ++i) {
      ASSERT_STATUS_OK(batches_->Submit(root_user_, reads(round), BatchOptions(), sink));
      submitted += round;
    }
    const std::vector<BatchItem> items = reads(100 * round);
    ASSERT_STATUS_OK(Await(batches_->Run(root_user_, items)));
    run += items.size();
    AwaitResults(sink, submitted);
  }
  EXPECT_GT(recording.batches, 8);
  ASSERT_EQ(recording.ids.size(), submitted + run);
  EXPECT_EQ(std::set<uint64_t>(recording.ids.begin(), recording.ids.end()).size(),
            recording.ids.size());
  EXPECT_EQ(files_->Report().connects, 1u);
  memory.lease.reset();
  StopClient();
}

// Shows DAFS-6.5.5-03: lists that do not match are never sent.
TEST_P(BatchTest, InvalidListsAreRejectedBeforeSending) {
  MakeLocal("a", "x");
  const OpenFile a = OpenFor("a");
  Memory memory = NewMemory(BufferUse::kReadTarget, 4);
  Sink sink;
  const BatchItem wrong = Item(wire::RwFlag::kRead, a, *memory.data, {{.byte_count = 5}});
  BatchItem none = wrong;
  none.data = nullptr;
  const BatchItem far =
      Item(wire::RwFlag::kRead, a, *memory.data, {{.offset = UINT64_MAX - 2, .byte_count = 4}});
  for (const BatchItem& item : {wrong, none, far}) {
    EXPECT_TRUE(absl::IsInvalidArgument(StatusIn(Await(batches_->Run(root_user_, {&item, 1})))));
    EXPECT_TRUE(absl::IsInvalidArgument(
        StatusIn(batches_->Submit(root_user_, {item}, BatchOptions(), sink))));
  }
  EXPECT_EQ(batches_->counts().submitted, 0u);
  EXPECT_TRUE(sink.results.empty());
}

// Shows DAFS-6.5.5-07, DAFS-6.6.2-01: on either channel, each item gets one result. Shows
// DAFS-3.1.2.3.2-07, DAFS-3.2.6.3-01: the client needs no Back-control Channel. Shows
// DAFS-3.1.2.2-05, DAFS-3.1.2.3.3-01: it opens one if that is granted.
TEST_P(BatchTest, EachSubmittedItemIsReportedOnce) {
  const std::string content = Pattern(300000);
  MakeLocal("a", content);
  const OpenFile a = OpenFor("a");
  const OpenFile b = OpenFor("b", /*create=*/true);
  std::vector<Memory> memory;
  for (int i = 0; i < 3; ++i) memory.push_back(NewMemory(BufferUse::kReadTarget, 100000));
  std::vector<BatchItem> items;
  for (uint64_t i = 0; i < 3; ++i) {
    items.push_back(Item(wire::RwFlag::kRead, a, *memory[i].data,
                         {{.offset = i * 100000, .byte_count = 100000}}, i));
  }
  Memory write = NewMemory(BufferUse::kWriteSource, 70000);
  const std::string fresh = Pattern(70000, 3);
  std::memcpy(write.at(), fresh.data(), fresh.size());
  items.push_back(
      Item(wire::RwFlag::kWrite, b, *write.data, {{.offset = 0, .byte_count = 70000}}, 3));
  Sink sink;
  BatchOptions options;
  options.window = absl::Milliseconds(5);
  options.num_completions = 2;
  const auto first = batches_->Submit(root_user_, items, options, sink);
  ASSERT_STATUS_OK(first);
  EXPECT_TRUE(sink.results.empty());
  AwaitResults(sink, 4);
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_STATUS_OK(sink.results[i].status);
    EXPECT_EQ(sink.results[i].bytes_transferred, i < 3 ? 100000u : 70000u);
    if (i < 3) {
      EXPECT_TRUE(memory[i].text(100000) == content.substr(i * 100000, 100000));
    }
  }
  EXPECT_TRUE(LocalContent("b") == fresh);
  EXPECT_EQ(batches_->counts().reported > 0, GetParam().back_control);
  EXPECT_TRUE(absl::IsNotFound(Await(batches_->HurryUp(*first))));
}

// The server throttles the client. In the end all items complete.
TEST_P(BatchTest, ThrottledItemsWaitForAReport) {
  StopClient();
  server_.reset();
  server_batch_requests_ = 2;
  StartServer();
  ClientOptions client_options = Options();
  client_options.byte_order = GetParam().order;
  client_options.checksums = GetParam().checksums;
  client_options.back_control_channel = GetParam().back_control;
  StartClient(std::move(client_options));
  const OpenFile b = OpenFor("b", /*create=*/true);
  Memory memory = NewMemory(BufferUse::kWriteSource, 1 << 20);
  const std::string data = Pattern(1 << 20, 5);
  std::memcpy(memory.at(), data.data(), data.size());
  Sink sink;
  for (uint64_t i = 0; i < 4; ++i) {  // different windows, so separate messages
    std::vector<BatchItem> items;
    for (uint64_t j = 0; j < 3; ++j) {
      const uint64_t cookie = i * 3 + j;
      items.push_back(Item(wire::RwFlag::kWrite, b, *memory.data,
                           {{.offset = cookie << 20, .byte_count = 1 << 20}}, cookie));
    }
    BatchOptions options;
    options.window = absl::Microseconds(i);
    ASSERT_STATUS_OK(batches_->Submit(root_user_, items, options, sink));
  }
  AwaitResults(sink, 12);
  for (const auto& [cookie, result] : sink.results) EXPECT_STATUS_OK(result.status);
  std::string all;
  for (int i = 0; i < 12; ++i) all += data;
  EXPECT_TRUE(LocalContent("b") == all);
  EXPECT_EQ(batches_->counts().throttled > 0, GetParam().back_control);
}

// A call without data reaches the server.
TEST_P(BatchTest, CacheHintsAreAccepted) {
  MakeLocal("a", Pattern(10000));
  const OpenFile a = OpenFor("a");
  EXPECT_STATUS_OK(
      Await(files_->data().CacheHint(root_user_, a.handle, 0, 0, wire::AccessPattern::kSequential,
                                     wire::kCacheHintPrefetch | wire::CacheHintRead(7))));
  EXPECT_EQ(
      wire::DafsFromStatus(Await(files_->data().CacheHint(
          root_user_, root_.handle, 0, 0, wire::AccessPattern::kNormal, wire::kCacheHintPrefetch))),
      wire::DafsStatus::kPrefetchNotSupported);
}

// An item that waits for others can be cancelled.
TEST_P(BatchTest, UnsentItemCanBeCancelled) {
  MakeLocal("a", Pattern(100));
  const OpenFile a = OpenFor("a");
  Memory memory = NewMemory(BufferUse::kReadTarget, 4);
  Sink sink;
  std::vector<BatchItem> items(
      2, Item(wire::RwFlag::kRead, a, *memory.data, {{.offset = 0, .byte_count = 4}}));
  items[1].cookie = 1;
  const auto first = batches_->Submit(root_user_, items, BatchOptions(), sink);
  ASSERT_STATUS_OK(first);
  EXPECT_TRUE(batches_->Cancel(*first + 1));
  EXPECT_FALSE(batches_->Cancel(*first + 1));
  AwaitResults(sink, 2);
  EXPECT_STATUS_OK(sink.results[0].status);
  EXPECT_TRUE(absl::IsCancelled(sink.results[1].status));
  EXPECT_FALSE(batches_->Cancel(*first));
}

// Shows DAFS-5.2.3-02: after a server restart, the client reissues the items without a report. It
// reclaims its opens first.
TEST_P(BatchTest, OutstandingItemsOfALostSessionAreReissued) {
  MakeLocal("a", std::string(100000, 'x'));  // all reads have the same target
  const OpenFile a = OpenFor("a");
  Memory memory = NewMemory(BufferUse::kReadTarget, 1000);
  Sink sink;
  std::vector<BatchItem> items;
  for (uint64_t i = 0; i < 100; ++i) {
    items.push_back(
        Item(wire::RwFlag::kRead, a, *memory.data, {{.offset = i * 1000, .byte_count = 1000}}, i));
  }
  BatchOptions options;
  options.num_completions = 100;
  ASSERT_STATUS_OK(batches_->Submit(root_user_, items, options, sink));
  loop_->RunOnce(absl::ZeroDuration());
  server_.reset();
  StartServer();
  AwaitResults(sink, 100);
  for (const auto& [cookie, result] : sink.results) {
    EXPECT_STATUS_OK(result.status);
    EXPECT_EQ(result.bytes_transferred, 1000u);
  }
}

// Spec: 3.2.5, 5.2.3. If the reply to a batch arrives damaged, the client does not reissue the
// batch on the same session: the server would refuse it, and the memory would be returned while the
// server still uses it.
TEST_P(BatchTest, DamagedBatchReplyEndsTheSession) {
  if (!GetParam().checksums || !GetParam().back_control) return;
  MakeLocal("a", Pattern(100000));
  StopClient();
  DamagingProvider damaging(*provider_);
  ClientOptions options = Options();
  options.byte_order = GetParam().order;
  options.checksums = true;
  options.back_control_channel = true;
  options.providers = {&damaging};
  StartClient(std::move(options));
  const OpenFile a = OpenFor("a");
  Memory memory = NewMemory(BufferUse::kReadTarget, 100000);
  Sink sink;
  BatchOptions batch;
  batch.num_completions = 100;  // reports only after all items
  std::vector<BatchItem> items;
  for (uint64_t i = 0; i < 100; ++i) {
    items.push_back(
        Item(wire::RwFlag::kRead, a, *memory.data, {{.offset = 0, .byte_count = 100000}}, i));
  }
  damaging.message_bytes = 48;  // the reply to BATCH_SUBMIT
  ASSERT_STATUS_OK(batches_->Submit(root_user_, items, batch, sink));
  AwaitResults(sink, 100);
  EXPECT_EQ(damaging.message_bytes, 0u);
  for (const auto& [cookie, result] : sink.results) EXPECT_STATUS_OK(result.status);
  EXPECT_TRUE(memory.text(100000) == Pattern(100000));
  const absl::Time deadline = Loop::Now() + absl::Seconds(60);
  while (files_->Report().connects < 2 && Loop::Now() < deadline) {
    loop_->RunOnce(absl::Milliseconds(100));  // all reports may arrive before the reply
  }
  EXPECT_EQ(files_->Report().connects, 2u);
  memory.lease.reset();
  StopClient();
}

// A shutdown of the client ends each outstanding item once.
TEST_P(BatchTest, ShutdownOfTheClientEndsEveryItem) {
  MakeLocal("a", Pattern(100));
  const OpenFile a = OpenFor("a");
  Memory memory = NewMemory(BufferUse::kReadTarget, 4);
  Sink sink;
  const std::vector<BatchItem> one = {
      Item(wire::RwFlag::kRead, a, *memory.data, {{.offset = 0, .byte_count = 4}})};
  ASSERT_STATUS_OK(batches_->Submit(root_user_, one, BatchOptions(), sink));
  loop_->RunOnce(absl::ZeroDuration());
  files_->Shutdown();
  ASSERT_EQ(sink.results.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(StatusIn(batches_->Submit(root_user_, one, BatchOptions(), sink))));
  memory.lease.reset();
}

// With `soft`, an item that cannot be sent in time ends once, and does not block others.
TEST_P(BatchTest, ItemThatCannotBeSentInTimeEndsOnce) {
  MakeLocal("a", Pattern(100));
  StopClient();
  ClientOptions soft = Options();
  soft.byte_order = GetParam().order;
  soft.checksums = GetParam().checksums;
  soft.back_control_channel = GetParam().back_control;
  soft.soft = true;
  soft.timeout = absl::Milliseconds(100);
  StartClient(std::move(soft));
  const OpenFile a = OpenFor("a");
  Memory memory = NewMemory(BufferUse::kReadTarget, 4);
  server_.reset();
  Sink sink;
  for (uint64_t i = 0; i < 3; ++i) {
    const std::vector<BatchItem> items(
        2, Item(wire::RwFlag::kRead, a, *memory.data, {{.offset = 0, .byte_count = 4}}, i));
    std::vector<BatchItem> own = items;
    own[1].cookie = 10 + i;
    const auto first = batches_->Submit(root_user_, own, BatchOptions(), sink);
    ASSERT_STATUS_OK(first);
    EXPECT_TRUE(batches_->Cancel(*first + 1));
    AwaitResults(sink, 2 * (i + 1));
    EXPECT_TRUE(absl::IsDeadlineExceeded(sink.results[i].status)) << sink.results[i].status;
  }
  StartServer();
}

// The callback of one item may expedite another one that waits. That one is still sent.
TEST_P(BatchTest, ItemExpeditedFromACallbackIsSent) {
  struct HurryingSink final : BatchSink {
    void OnBatchDone(uint64_t cookie, const BatchResult& result) override {
      heard.OnBatchDone(cookie, result);
      if (cookie == 0) Start(Hurry());
    }
    Task<void> Hurry() {
      Task<absl::Status> task = batches->HurryUp(hurried);
      hurried_status = co_await task;
    }
    Batches* batches = nullptr;
    uint64_t hurried = 0;
    absl::Status hurried_status = absl::UnknownError("not asked");
    Sink heard;
  };
  MakeLocal("a", Pattern(100));
  MakeLocal("b", Pattern(100));
  const OpenFile closed = OpenFor("b");
  const OpenFile a = OpenFor("a");
  ASSERT_STATUS_OK(Await(files_->opens().Close(closed.state_id)));
  Memory memory = NewMemory(BufferUse::kReadTarget, 4);
  std::vector<BatchItem> items;
  for (uint64_t i = 0; i < 3; ++i) {
    items.push_back(Item(wire::RwFlag::kRead, i == 0 ? closed : a, *memory.data,
                         {{.offset = 0, .byte_count = 4}}, i));
  }
  HurryingSink sink;
  sink.batches = &*batches_;
  const auto first = batches_->Submit(root_user_, items, BatchOptions(), sink);
  ASSERT_STATUS_OK(first);
  sink.hurried = *first + 2;
  AwaitResults(sink.heard, 3);
  EXPECT_FALSE(sink.heard.results[0].status.ok());
  EXPECT_STATUS_OK(sink.heard.results[1].status);
  EXPECT_STATUS_OK(sink.heard.results[2].status);
  EXPECT_STATUS_OK(sink.hurried_status);
}

INSTANTIATE_TEST_SUITE_P(
    All, BatchTest,
    testing::Values(Variant{"Plain", HostByteOrder(), false, true},
                    Variant{"Checked", wire::ByteOrder::kBig, true, true},
                    Variant{"WithoutChannel", HostByteOrder(), false, false},
                    Variant{"CheckedWithoutChannel", wire::ByteOrder::kBig, true, false},
                    Variant{"WindowsWithoutChannel", HostByteOrder(), true, false, Windows::kOn}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace dafs::client
