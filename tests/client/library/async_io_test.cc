// Asynchronous reads and writes against the real server: where data arrives, what is refused, and
// how I/O ends. Faults are in async_io_faults_test.cc.
#include "tests/client/library/async_fixture.h"
#include "wire/protocol/status.h"

namespace dafs::client {
namespace {

class AsyncIoTest : public AsyncTest, public testing::WithParamInterface<Windows> {
 protected:
  void SetUp() override {
    AsyncTest::SetUp();
    windows_ = GetParam();
  }
};
INSTANTIATE_TEST_SUITE_P(Memory, AsyncIoTest, testing::Values(Windows::kOff, Windows::kOn),
                         [](const auto& info) { return NameOf(info.param); });

constexpr uint32_t kDirectBlock = 24 << 10;  // transferred directly, both ways

// Shows FAST03-4-06, FAST03-4-08, FAST03-4-11, DAFS-3.2.3.1-03.
TEST_P(AsyncIoTest, ThirtyTwoRandomReadsAndWritesRunInParallel) {
  constexpr size_t kBlocks = 64;
  constexpr size_t kDepth = 32;
  constexpr int kTotal = 1500;
  StartIo(Options());
  std::string model = RandomText(kBlocks * kDirectBlock, 1);
  std::unique_ptr<IoFile> file = OpenIo("file", model);
  Pages memory(kDepth * kDirectBlock);
  const MemoryHandle handle = Register(memory);
  std::mt19937_64 dice(2);
  struct Out {
    bool write = false;
    size_t block = 0;
  };
  std::vector<Out> outs(kDepth);
  std::vector<bool> busy(kBlocks, false);
  int issued = 0;
  int ended = 0;
  size_t deepest = 0;
  // Each block has at most one I/O at a time, so its content is known.
  auto issue = [&](uint64_t place) {
    Out& out = outs[place];
    do {
      out.block = dice() % kBlocks;
    } while (busy[out.block]);
    busy[out.block] = true;
    out.write = dice() % 2 == 0;
    MemorySegment segment{memory.data() + place * kDirectBlock, kDirectBlock, handle};
    const uint64_t offset = out.block * kDirectBlock;
    if (out.write) {
      const std::string text = RandomText(kDirectBlock, dice());
      std::memcpy(segment.data, text.data(), kDirectBlock);
      model.replace(offset, kDirectBlock, text);
    } else {
      std::memset(segment.data, 0xee, kDirectBlock);
    }
    ++issued;
    ASSERT_STATUS_OK(out.write ? Write(*file, segment, offset, place)
                               : Read(*file, segment, offset, place));
  };
  for (size_t place = 0; place < kDepth; ++place) issue(place);
  std::vector<IoCompletion> completions(8);
  while (ended < kTotal) {
    deepest = std::max(deepest, group_->outstanding());
    const size_t count = ended % 2 == 0 ? group_->Wait(completions) : group_->Poll(completions);
    for (size_t i = 0; i < count; ++i) {
      const IoCompletion& completion = completions[i];
      const Out out = outs[completion.cookie];
      ++ended;
      ASSERT_STATUS_OK(completion.status);
      ASSERT_EQ(completion.count, kDirectBlock);
      if (!out.write) {
        ASSERT_EQ(memory.Text(completion.cookie * kDirectBlock, kDirectBlock),
                  model.substr(out.block * kDirectBlock, kDirectBlock));
      }
      busy[out.block] = false;
      if (issued < kTotal) issue(completion.cookie);
    }
  }
  EXPECT_EQ(deepest, kDepth);
  EXPECT_EQ(group_->outstanding(), 0u);
  EXPECT_EQ(LocalContent("file"), model);
  CloseIo(*file);
}

// Shows FAST03-3.1-07: the memory of messages, on both sides, is a fraction of the data in
// transfer.
TEST_P(AsyncIoTest, SmallMessagesSufficeForManyLargeTransfers) {
  constexpr size_t kDepth = 32;
  ClientOptions options = Options();
  options.max_request_size = options.max_response_size = 1024;
  StartIo(std::move(options));
  std::unique_ptr<IoFile> file = OpenIo("file", RandomText(kDepth * kDirectBlock, 9));
  Pages memory(kDepth * kDirectBlock);
  const MemoryHandle handle = Register(memory);
  for (size_t i = 0; i < kDepth; ++i) {
    ASSERT_STATUS_OK(
        Read(*file, {memory.data() + i * kDirectBlock, kDirectBlock, handle}, i * kDirectBlock, i));
  }
  EXPECT_EQ(group_->outstanding(), kDepth);
  EXPECT_LT(4 * server_->message_bytes(), kDepth * kDirectBlock);
  for (size_t i = 0; i < kDepth; ++i) EXPECT_STATUS_OK(Next().status);
  EXPECT_EQ(memory.Text(0, kDepth * kDirectBlock), LocalContent("file"));
  CloseIo(*file);
}

// Shows FAST03-4-09, FAST03-4-12.
TEST_P(AsyncIoTest, MemorySegmentsAndFileRangesNeedNotAlign) {
  ClientOptions options = Options();
  options.read_bytes = options.write_bytes = 16384;  // splits requests across segments and ranges
  StartIo(std::move(options));
  const std::string content = RandomText(300'000, 3);
  std::unique_ptr<IoFile> file = OpenIo("file", content);
  Pages memory(400 << 10);
  const MemoryHandle handle = Register(memory);
  std::mt19937_64 dice(4);
  for (int round = 0; round < 60; ++round) {
    std::string model = LocalContent("file");
    std::vector<MemorySegment> segments;
    std::vector<FileRange> ranges;
    // The gaps are 7 bytes in memory and 11 bytes in the file.
    size_t at = dice() % 64;
    uint64_t bytes = 0;
    for (size_t i = 0, count = 1 + dice() % 9; i < count; ++i) {
      const auto size = static_cast<uint32_t>(dice() % (round % 3 == 0 ? 900 : 21'000));
      segments.push_back({memory.data() + at, size, handle});
      at += size + 7;
      bytes += size;
    }
    uint64_t offset = dice() % 1000;
    for (uint64_t left = bytes; left > 0 || ranges.empty();) {
      const auto size = static_cast<uint32_t>(std::min<uint64_t>(left, 1 + dice() % 30'000));
      if (ranges.size() == AsyncIo::kMostSegments) break;
      ranges.push_back({offset, size});
      offset += size + 11;
      left -= size;
    }
    ASSERT_LE(offset, content.size());
    const bool write = round % 2 == 0;
    std::string text = RandomText(bytes, dice());
    size_t done = 0;
    for (const MemorySegment& segment : segments) {
      std::memset(segment.data, 0, segment.size);
      if (write && segment.size > 0) std::memcpy(segment.data, text.data() + done, segment.size);
      done += segment.size;
    }
    auto id = write ? io_->Write(*file, segments, ranges, *group_)
                    : io_->Read(*file, segments, ranges, *group_);
    ASSERT_STATUS_OK(id);
    absl::StatusOr<IoCompletion> end = io_->Wait(*id);
    ASSERT_STATUS_OK(end);
    ASSERT_STATUS_OK(end->status);
    ASSERT_EQ(end->count, bytes);
    std::string gathered;
    for (const MemorySegment& segment : segments) {
      gathered.append(reinterpret_cast<const char*>(segment.data), segment.size);
    }
    done = 0;
    for (const FileRange& range : ranges) {
      if (write) model.replace(range.offset, range.size, text.substr(done, range.size));
      EXPECT_EQ(gathered.substr(done, range.size), model.substr(range.offset, range.size));
      done += range.size;
    }
    ASSERT_TRUE(LocalContent("file") == model)
        << "round " << round;  // bytes outside the ranges are unchanged
  }
  CloseIo(*file);
}

// Shows FAST03-4-10: by messages, and by the library's own buffers.
TEST_P(AsyncIoTest, MemoryNeedNotBeRegistered) {
  StartIo(Options());
  std::unique_ptr<IoFile> file = OpenIo("file", std::string(3 << 20, 'x'));
  for (uint32_t size : {1u, 700u, 4096u, 12289u, 100'000u, 1u << 20, (2u << 20) + 5}) {
    const std::string text = RandomText(size, size);
    std::string source = text;
    std::vector<char> target(size);
    const MemorySegment from{reinterpret_cast<std::byte*>(source.data()), size, {}};
    ASSERT_STATUS_OK(Write(*file, from, 17));
    IoCompletion written = Next();
    ASSERT_STATUS_OK(written.status);
    EXPECT_EQ(written.count, size);
    // Each half goes to one of two segments.
    const MemorySegment into[] = {
        {reinterpret_cast<std::byte*>(target.data()), size / 2, {}},
        {reinterpret_cast<std::byte*>(target.data()) + size / 2, size - size / 2, {}}};
    const FileRange range{17, size};
    ASSERT_STATUS_OK(io_->Read(*file, into, {&range, 1}, *group_));
    IoCompletion read = Next();
    ASSERT_STATUS_OK(read.status);
    EXPECT_EQ(read.count, size);
    EXPECT_TRUE(std::string(target.data(), size) == text) << size;
  }
  EXPECT_EQ(files_->buffers().counts().leased, 0u);
  CloseIo(*file);
}

// I/O beyond the size of the buffers waits for free ones.
TEST_P(AsyncIoTest, UnregisteredMemoryWaitsForBuffers) {
  ClientOptions options = Options();
  options.buffers.bytes = size_t{6} << 20;  // two large buffers each way
  StartIo(std::move(options));
  std::unique_ptr<IoFile> file = OpenIo("file", RandomText(8 << 20, 6));
  std::vector<std::vector<std::byte>> memory(8, std::vector<std::byte>(1 << 20));
  for (size_t i = 0; i < memory.size(); ++i) {
    ASSERT_STATUS_OK(Read(*file, {memory[i].data(), 1 << 20, {}}, i << 20));
  }
  for (size_t i = 0; i < memory.size(); ++i) EXPECT_STATUS_OK(Next().status);
  std::string all;
  for (const auto& part : memory) all.append(reinterpret_cast<const char*>(part.data()), 1 << 20);
  EXPECT_TRUE(all == LocalContent("file"));
  CloseIo(*file);
}

// Shows FAST03-4-13, FAST03-4-14.
TEST_P(AsyncIoTest, GroupReturnsOnlyItsOwnCompletions) {
  StartIo(Options());
  std::unique_ptr<IoFile> file = OpenIo("file", RandomText(1 << 20, 7));
  Pages memory(1 << 20);
  const MemoryHandle handle = Register(memory);
  CompletionGroup other(*loop_);
  const FileRange range{0, kDirectBlock};
  for (uint64_t i = 0; i < 16; ++i) {
    const MemorySegment segment{memory.data() + i * kDirectBlock, kDirectBlock, handle};
    IoOptions options;
    options.cookie = i;
    ASSERT_STATUS_OK(
        io_->Read(*file, {&segment, 1}, {&range, 1}, i % 2 == 0 ? *group_ : other, options));
  }
  EXPECT_EQ(group_->outstanding(), 8u);
  std::vector<IoCompletion> completions(16);
  size_t seen = 0;
  while (seen < 8) {
    const size_t count = other.Wait(completions, absl::Seconds(30));
    ASSERT_GT(count, 0u);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(completions[i].cookie % 2, 1u);
    seen += count;
  }
  EXPECT_EQ(other.Wait(completions), 0u);  // immediately: it has no outstanding I/O
  EXPECT_EQ(other.Poll(completions), 0u);
  EXPECT_EQ(group_->outstanding() + group_->ended(), 8u);
  for (seen = 0; seen < 8;) {
    const size_t count = group_->Wait(completions, absl::Seconds(30));
    ASSERT_GT(count, 0u);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(completions[i].cookie % 2, 0u);
    seen += count;
  }
  CloseIo(*file);
}

TEST_P(AsyncIoTest, ReadStopsAtEndOfFile) {
  StartIo(Options());
  std::unique_ptr<IoFile> file = OpenIo("file", RandomText(30'000, 8));
  Pages memory(64 << 10);
  const MemoryHandle handle = Register(memory);
  ASSERT_STATUS_OK(Read(*file, {memory.data(), 20'000, handle}, 15'000));
  IoCompletion end = Next();
  EXPECT_STATUS_OK(end.status);
  EXPECT_EQ(end.count, 15'000u);
  EXPECT_TRUE(end.eof);
  EXPECT_EQ(memory.Text(0, 15'000), LocalContent("file").substr(15'000));
  // Bytes after the gap are not counted.
  const MemorySegment segment{memory.data(), 20'000, handle};
  const FileRange ranges[] = {{29'000, 10'000}, {0, 10'000}};
  ASSERT_STATUS_OK(io_->Read(*file, {&segment, 1}, ranges, *group_));
  end = Next();
  EXPECT_STATUS_OK(end.status);
  EXPECT_EQ(end.count, 1000u);
  EXPECT_TRUE(end.eof);
  CloseIo(*file);
}

TEST_P(AsyncIoTest, ErrorAffectsOneIoAndNamesItsFile) {
  StartIo(Options());
  std::unique_ptr<IoFile> good = OpenIo("good", RandomText(kDirectBlock, 9));
  IoFile bad;
  bad.name = "bad";
  bad.handle = root_.handle;  // a directory
  Pages memory(2 * kDirectBlock);
  const MemoryHandle handle = Register(memory);
  ASSERT_STATUS_OK(Read(*good, {memory.data(), kDirectBlock, handle}, 0, 1));
  ASSERT_STATUS_OK(Write(bad, {memory.data() + kDirectBlock, kDirectBlock, handle}, 5, 2));
  for (int i = 0; i < 2; ++i) {
    IoCompletion end = Next();
    EXPECT_EQ(end.status.ok(), end.cookie == 1) << end.status;
    if (end.cookie == 1) continue;
    EXPECT_EQ(end.count, 0u);
    EXPECT_TRUE(wire::HasDafsStatus(end.status)) << end.status;
    EXPECT_THAT(std::string(end.status.message()),
                testing::StartsWith("127.0.0.1:/data: write 24576 at 5 of bad: "));
  }
  CloseIo(*good);
}

// Shows DAFS-4.2.2.2-01.
TEST_P(AsyncIoTest, MemoryIsUsedOnlyAsRegistered) {
  StartIo(Options());
  std::unique_ptr<IoFile> file = OpenIo("file", RandomText(1 << 20, 10));
  Pages memory(kDirectBlock), foreign(kDirectBlock);
  const MemoryHandle reads = Register(memory, MemoryAccess::kReads);
  EXPECT_TRUE(
      absl::IsPermissionDenied(Write(*file, {memory.data(), kDirectBlock, reads}, 0).status()));
  EXPECT_TRUE(absl::IsOutOfRange(Read(*file, {foreign.data(), kDirectBlock, reads}, 0).status()));
  EXPECT_TRUE(
      absl::IsOutOfRange(Read(*file, {memory.data() + 1, kDirectBlock, reads}, 0).status()));
  UserMemory& user_memory = files_->buffers().user_memory();
  ASSERT_STATUS_OK(Read(*file, {memory.data(), kDirectBlock, reads}, 0));
  EXPECT_TRUE(absl::IsFailedPrecondition(user_memory.Deregister(reads)));  // it is in use
  EXPECT_STATUS_OK(Next().status);
  EXPECT_STATUS_OK(user_memory.Deregister(reads));
  EXPECT_TRUE(absl::IsNotFound(Read(*file, {memory.data(), kDirectBlock, reads}, 0).status()));
  const MemoryHandle again = Register(foreign);  // replaces the other
  EXPECT_FALSE(again == reads);
  EXPECT_TRUE(absl::IsNotFound(Read(*file, {foreign.data(), kDirectBlock, reads}, 0).status()));
  EXPECT_EQ(user_memory.bytes(), kDirectBlock);
  CloseIo(*file);
}

TEST_P(AsyncIoTest, InvalidIoIsRefusedAtIssue) {
  StartIo(Options(), 2);
  std::unique_ptr<IoFile> file = OpenIo("file", RandomText(1 << 20, 11));
  Pages memory(kDirectBlock);
  const MemoryHandle handle = Register(memory);
  const std::vector<MemorySegment> many(AsyncIo::kMostSegments + 1, {memory.data(), 1, handle});
  const FileRange long_range{0, AsyncIo::kMostSegments + 1};
  EXPECT_TRUE(absl::IsInvalidArgument(io_->Read(*file, many, {&long_range, 1}, *group_).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      io_->Read(*file, std::span(many).first(2), {&long_range, 1}, *group_).status()));
  const MemorySegment segment{memory.data(), kDirectBlock, handle};
  ASSERT_STATUS_OK(Read(*file, segment, 0));
  ASSERT_STATUS_OK(Read(*file, segment, 0));
  absl::Status full = Read(*file, segment, 0).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_STATUS_OK(Next().status);
  EXPECT_STATUS_OK(Read(*file, segment, 0));
  for (int i = 0; i < 2; ++i) EXPECT_STATUS_OK(Next().status);
  EXPECT_EQ(file->outstanding, 0u);
  CloseIo(*file);
}

// Shows FAST03-4-17: after each number of turns of the loop, one I/O is cancelled.
TEST_P(AsyncIoTest, IoCanBeCancelledAtAnyTurnOfTheLoop) {
  StartIo(Options());
  const std::string content = RandomText(1 << 20, 12);
  std::unique_ptr<IoFile> file = OpenIo("file", content);
  Pages memory(8 * kDirectBlock);
  const MemoryHandle handle = Register(memory);
  int cancelled = 0;
  for (int turns = 0; turns < 40; ++turns) {
    for (bool registered : {true, false}) {
      SCOPED_TRACE(turns);
      std::memset(memory.data(), 0, memory.all().size());
      std::vector<IoId> ids;
      for (uint64_t i = 0; i < 8; ++i) {
        auto id = Read(
            *file,
            {memory.data() + i * kDirectBlock, kDirectBlock, registered ? handle : MemoryHandle()},
            i * kDirectBlock, i);
        ASSERT_STATUS_OK(id);
        ids.push_back(*id);
      }
      for (int i = 0; i < turns; ++i) loop_->Turn();
      EXPECT_STATUS_OK(io_->Cancel(ids[3]));
      for (int i = 0; i < 8; ++i) {
        const IoCompletion end = Next();
        // The memory belongs to the application again: no late data arrives.
        const size_t at = end.cookie * kDirectBlock;
        if (end.status.ok()) {
          ASSERT_EQ(memory.Text(at, kDirectBlock), content.substr(at, kDirectBlock));
        } else {
          ASSERT_TRUE(absl::IsCancelled(end.status)) << end.status;
          ASSERT_EQ(end.cookie, 3u);
          ++cancelled;
        }
        std::memset(memory.data() + at, 0x11, kDirectBlock);
      }
      for (int i = 0; i < 5; ++i) loop_->Turn();
      EXPECT_EQ(memory.Text(0, 8 * kDirectBlock), std::string(8 * kDirectBlock, '\x11'));
      EXPECT_TRUE(absl::IsNotFound(io_->Cancel(ids[3])));
    }
  }
  EXPECT_GT(cancelled, 0);
  CloseIo(*file);
  EXPECT_EQ(files_->Report().session.slots_taken, 0u);
}

// I/O issued together is sent together, and its completions arrive together.
TEST_P(AsyncIoTest, NoIoCompletesBeforeTheLoopRuns) {
  StartIo(Options());
  std::unique_ptr<IoFile> file = OpenIo("file", RandomText(1 << 20, 13));
  Pages memory(32 * 1024);
  const MemoryHandle handle = Register(memory);
  for (uint64_t i = 0; i < 32; ++i) {
    ASSERT_STATUS_OK(Read(*file, {memory.data() + i * 1024, 1024, handle}, i * 1024));
  }
  EXPECT_EQ(group_->ended(), 0u);
  std::vector<IoCompletion> completions(32);
  for (size_t seen = 0; seen < 32;) seen += group_->Wait(completions);
  CloseIo(*file);
}

// Shows FAST03-4-06: nothing blocks, and I/O outstanding at the end of the session gets a
// completion.
TEST_P(AsyncIoTest, ShutdownCompletesOutstandingIo) {
  StartIo(Options());
  std::unique_ptr<IoFile> file = OpenIo("file", RandomText(1 << 20, 14));
  Pages memory(4 * kDirectBlock);
  const MemoryHandle handle = Register(memory);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_STATUS_OK(Read(*file, {memory.data() + i * kDirectBlock, kDirectBlock, handle}, 0));
  }
  files_->Shutdown();
  EXPECT_EQ(group_->outstanding(), 0u);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(absl::IsCancelled(Next().status));
}

// One group collects the I/O of two sessions on one loop.
TEST_P(AsyncIoTest, TwoSessionsShareOneLoopAndGroup) {
  StartIo(Options());
  auto second = Files::Create(*client_, *loop_);
  ASSERT_STATUS_OK(second);
  AsyncIo io(**second, root_user_);
  std::unique_ptr<IoFile> file = OpenIo("file", RandomText(1 << 20, 15));
  Pages memory(2 * kDirectBlock);
  const MemoryHandle handle = Register(memory);
  auto other = (*second)->buffers().user_memory().Register(memory.all(), MemoryAccess::kReads);
  ASSERT_STATUS_OK(other);
  const FileRange range{100, kDirectBlock};
  const MemorySegment segment{memory.data() + kDirectBlock, kDirectBlock, *other};
  ASSERT_STATUS_OK(io.Read(*file, {&segment, 1}, {&range, 1}, *group_));
  ASSERT_STATUS_OK(Read(*file, {memory.data(), kDirectBlock, handle}, 100));
  for (int i = 0; i < 2; ++i) EXPECT_STATUS_OK(Next().status);
  EXPECT_EQ(memory.Text(0, kDirectBlock), LocalContent("file").substr(100, kDirectBlock));
  EXPECT_EQ(memory.Text(0, kDirectBlock), memory.Text(kDirectBlock, kDirectBlock));
  CloseIo(*file);
  (*second)->Shutdown();
}

}  // namespace
}  // namespace dafs::client
