// A session with memory windows and a server that does not support remote invalidation: the client
// invalidates each window itself, before it reports the reply.
#include <algorithm>
#include <memory>
#include <vector>

#include "client/library/async_io.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using ::testing::HasSubstr;
using wire::Proc;

constexpr uint32_t kSize = 65536;

class WindowsTest : public ScriptedTest {
 protected:
  void SetUp() override {
    server_.windows = absl::OkStatus();
    options_.windows = Windows::kAuto;
  }
  absl::StatusOr<ReadResult> Read(BufferLease& into) {
    return Await(files_->data().Read(user_, file_, wire::StateId(), 77, into, kSize));
  }
  SessionReport Report() { return files_->Report().session; }
  wire::FileHandle file_;
};

TEST_F(WindowsTest, AreBoundAndInvalidatedOncePerTransfer) {
  MakeFiles();
  BufferLease target = files_->buffers().TryAcquire(BufferUse::kReadTarget, kSize);
  BufferLease source = files_->buffers().TryAcquire(BufferUse::kWriteSource, kSize);
  for (size_t i = 1; i <= 20; ++i) {
    ASSERT_OK(Read(target));
    EXPECT_EQ(target.payload()[kSize - 1], ScriptedByte(77 + kSize - 1));
    std::fill_n(source.payload(), kSize, std::byte(i));
    ASSERT_OK(Await(files_->data().Write(user_, file_, wire::StateId(), 0, source, 0, kSize,
                                         wire::StableHow::kUnstable)));
    EXPECT_EQ(server_.windows_bound, 2 * i);
    EXPECT_EQ(server_.windows_ended, 2 * i);
  }
  EXPECT_EQ(Report().memory, "memory windows");
  // The connection request offers remote invalidation, after the data that E.9 defines.
  ASSERT_EQ(server_.only().private_data.size(), 24u);
}

// Shows DAFS-E.6-01, for regions and for windows.
TEST_F(WindowsTest, MemoryThatTheServerKnowsHasTheRightOfItsUseOnly) {
  for (const Windows windows : {Windows::kOff, Windows::kAuto}) {
    SCOPED_TRACE(windows == Windows::kOff ? "regions" : "windows");
    options_.windows = windows;
    server_.windows_bound = 0;
    MakeFiles();
    int reads = 0;
    int writes = 0;
    server_.script = [&](ScriptedConnection& c, const Request& request) {
      if (request.header.procedure == Proc::kReadDirect) {
        const auto named = request.Decode<wire::ReadDirectArgs>().read_data_buffers[0];
        EXPECT_TRUE(c.RdmaRead(named).empty());
        EXPECT_TRUE(c.RdmaWrite(named, std::vector<std::byte>(named.buffer_byte_count)));
        ++reads;
      }
      if (request.header.procedure == Proc::kWriteDirect) {
        const auto named = request.Decode<wire::WriteDirectArgs>().write_data_buffers[0];
        EXPECT_FALSE(c.RdmaWrite(named, std::vector<std::byte>(named.buffer_byte_count)));
        EXPECT_EQ(c.RdmaRead(named).size(), named.buffer_byte_count);
        ++writes;
      }
      return false;
    };
    {
      BufferLease target = files_->buffers().TryAcquire(BufferUse::kReadTarget, kSize);
      BufferLease source = files_->buffers().TryAcquire(BufferUse::kWriteSource, kSize);
      ASSERT_OK(Read(target));
      ASSERT_OK(Await(files_->data().Write(user_, file_, wire::StateId(), 0, source, 0, kSize,
                                           wire::StableHow::kUnstable)));
    }
    EXPECT_EQ(reads, 1);
    EXPECT_EQ(writes, 1);
    EXPECT_EQ(server_.windows_bound, windows == Windows::kOff ? 0u : 2u);
    server_.violations.clear();  // the refused accesses
    files_->Shutdown();
    files_.reset();
  }
}

TEST_F(WindowsTest, AreInvalidatedBeforeTheReadCompletes) {
  MakeFiles();
  wire::DirectOpBuffer named;
  server_.script = [&](ScriptedConnection&, const Request& request) {
    if (request.header.procedure == Proc::kReadDirect) {
      named = request.Decode<wire::ReadDirectArgs>().read_data_buffers[0];
    }
    return false;
  };
  BufferLease target = files_->buffers().TryAcquire(BufferUse::kReadTarget, kSize);
  ASSERT_OK(Read(target));
  EXPECT_EQ(named.buffer_byte_count, kSize);
  const std::byte byte{1};
  EXPECT_FALSE(server_.only().RdmaWrite(named, {&byte, 1}));
  server_.violations.clear();
}

// The window covers only the bytes that the request names, with the access that its procedure
// needs.
TEST_F(WindowsTest, ExposeNoMoreThanTheRequestNeeds) {
  MakeFiles();
  int refused = 0;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kReadDirect) return false;
    wire::DirectOpBuffer named = request.Decode<wire::ReadDirectArgs>().read_data_buffers[0];
    EXPECT_TRUE(c.RdmaRead(named).empty());
    named.buffer_address += 1;
    const std::vector<std::byte> data(named.buffer_byte_count);
    EXPECT_FALSE(c.RdmaWrite(named, data));
    refused = 2;
    return false;
  };
  BufferLease target = files_->buffers().TryAcquire(BufferUse::kReadTarget, kSize);
  ASSERT_OK(Read(target));
  EXPECT_EQ(refused, 2);
  server_.violations.clear();
}

Task<void> ReadOne(Files& files, const Identity& user, const wire::FileHandle& file,
                   BufferLease* target, int number, std::vector<int>* reported) {
  const wire::StateId none;
  Task<absl::StatusOr<ReadResult>> task = files.data().Read(user, file, none, 5, *target, kSize);
  absl::StatusOr<ReadResult> read = co_await task;
  reported->push_back(read.ok() ? number : -1);
}

TEST_F(WindowsTest, RepliesAreReportedInOrder) {
  MakeFiles();
  ASSERT_OK(Await(files_->names().Lookup(user_, file_, "name")));
  server_.hold = true;
  std::vector<BufferLease> targets;
  std::vector<int> reported;
  for (int i = 0; i < 6; ++i) {
    targets.push_back(files_->buffers().TryAcquire(BufferUse::kReadTarget, kSize));
    ASSERT_TRUE(targets.back());
  }
  for (int i = 0; i < 6; ++i) {
    Start(ReadOne(*files_, user_, file_, &targets[static_cast<size_t>(i)], i, &reported));
  }
  ASSERT_TRUE(Until([&] { return server_.only().held.size() == 6; }));
  EXPECT_EQ(server_.windows_ended, 0u);
  server_.hold = false;
  server_.ServeHeld(server_.only());
  ASSERT_TRUE(Until([&] { return reported.size() == 6; }));
  EXPECT_EQ(reported, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(server_.windows_ended, 6u);
}

// Application memory, registered for reads and writes.
class WindowsOfTheApplicationTest : public WindowsTest {
 protected:
  ~WindowsOfTheApplicationTest() override {
    if (files_ != nullptr) files_->Shutdown();
    io_.reset();
    group_.reset();
  }
  void StartIo() {
    MakeFiles();
    ASSERT_OK(Await(files_->names().Lookup(user_, file_, "name")));
    auto handle = files_->buffers().user_memory().Register(memory_, MemoryAccess::kBoth);
    ASSERT_OK(handle);
    handle_ = *handle;
    io_ = std::make_unique<AsyncIo>(*files_, user_);
    group_ = std::make_unique<CompletionGroup>(*loop_);
  }
  // Transfers `count` segments of `size` bytes with a gap of one byte between them.
  absl::StatusOr<IoCompletion> Transfer(bool write, uint32_t count, uint32_t size) {
    std::vector<MemorySegment> segments;
    for (uint32_t i = 0; i < count; ++i) {
      segments.push_back({memory_.data() + size_t{i} * (size + 1), size, handle_});
    }
    const FileRange range{5, count * size};
    absl::StatusOr<IoId> id = write ? io_->Write(io_file_, segments, {&range, 1}, *group_)
                                    : io_->Read(io_file_, segments, {&range, 1}, *group_);
    if (!id.ok()) return id.status();
    return io_->Wait(*id);
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(size_t{1} << 20);
  MemoryHandle handle_;
  IoFile io_file_;
  std::unique_ptr<AsyncIo> io_;
  std::unique_ptr<CompletionGroup> group_;
};

TEST_F(WindowsOfTheApplicationTest, AreBoundForOneRequestAndItsDirection) {
  StartIo();
  wire::DirectOpBuffer named;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kReadDirect) return false;
    named = request.Decode<wire::ReadDirectArgs>().read_data_buffers[0];
    EXPECT_TRUE(c.RdmaRead(named).empty());
    server_.violations.clear();
    return false;
  };
  auto end = Transfer(false, 1, kSize);
  ASSERT_OK(end);
  ASSERT_OK(end->status);
  EXPECT_EQ(memory_[kSize - 1], ScriptedByte(5 + kSize - 1));
  const std::byte byte{1};
  EXPECT_FALSE(server_.only().RdmaWrite(named, {&byte, 1}));
  server_.violations.clear();
  EXPECT_EQ(server_.windows_ended, server_.windows_bound);
  EXPECT_OK(files_->buffers().user_memory().Deregister(handle_));
}

TEST_F(WindowsOfTheApplicationTest, LongListsAreSplitIntoSeveralRequests) {
  StartIo();
  server_.script = [&](ScriptedConnection&, const Request& request) {
    if (request.header.procedure == Proc::kReadDirect) {
      EXPECT_LE(request.Decode<wire::ReadDirectArgs>().read_data_buffers.size(),
                RemoteAccess::kMostOfRequest);
    } else if (request.header.procedure == Proc::kWriteDirect) {
      EXPECT_LE(request.Decode<wire::WriteDirectArgs>().write_data_buffers.size(),
                RemoteAccess::kMostOfRequest);
    }
    return false;
  };
  for (const bool write : {false, true}) {
    auto end = Transfer(write, 64, 10'000);
    ASSERT_OK(end);
    ASSERT_OK(end->status);
    EXPECT_EQ(end->count, 640'000u);
  }
  EXPECT_EQ(server_.windows_bound, 128u);
  EXPECT_EQ(server_.windows_ended, 128u);
}

// A request issued without windows may have more segments than a session with windows allows. It is
// reissued on a session without windows.
TEST_F(WindowsOfTheApplicationTest, RequestTooLongForWindowsIsReissuedWithoutThem) {
  server_.windows = absl::UnimplementedError("none here");
  StartIo();
  server_.hold = true;
  std::vector<MemorySegment> segments;
  for (size_t i = 0; i < 20; ++i) segments.push_back({memory_.data() + i * 5000, 5000, handle_});
  const FileRange range{0, 100'000};
  auto id = io_->Read(io_file_, segments, {&range, 1}, *group_);
  ASSERT_OK(id);
  ASSERT_TRUE(Until([&] { return !server_.only().held.empty(); }));
  server_.windows = absl::OkStatus();
  server_.hold = false;
  server_.only().Close(absl::OkStatus());
  auto end = io_->Wait(*id);
  ASSERT_OK(end);
  ASSERT_OK(end->status);
  EXPECT_EQ(memory_[99'999], ScriptedByte(99'999));
  EXPECT_THAT(Report().memory, HasSubstr("no memory windows: requests that name more than"));
  EXPECT_EQ(server_.windows_bound, 0u);
}

TEST_F(WindowsOfTheApplicationTest, IoSurvivesConnectionLossAtAnyPoint) {
  options_.backoff_most = absl::Milliseconds(2);
  StartIo();
  for (int n = 1;; ++n) {
    ASSERT_LT(n, 1000);
    server_.operations = 0;
    server_.break_at = n;
    auto end = Transfer(false, 6, 9'000);
    ASSERT_OK(end) << n;
    ASSERT_OK(end->status) << n;
    if (server_.operations < n) break;
  }
  server_.break_at = 0;
}

// Each transport operation fails once, including binds. The read still succeeds.
TEST_F(WindowsTest, ReadSurvivesConnectionLossAtAnyPoint) {
  MakeFiles();
  BufferLease target = files_->buffers().TryAcquire(BufferUse::kReadTarget, kSize);
  ASSERT_OK(Read(target));
  for (int n = 1;; ++n) {
    ASSERT_LT(n, 1000);
    server_.operations = 0;
    server_.break_at = n;
    ASSERT_OK(Read(target)) << n;
    EXPECT_EQ(target.payload()[1], ScriptedByte(78));
    if (server_.operations < n) break;
  }
  server_.break_at = 0;
}

TEST_F(WindowsTest, AreNotUsedIfDisabledOrUnsupported) {
  struct Case {
    Windows wish;
    absl::Status can;
    bool read_channel;
    const char* memory;
    bool back_control = false;
  };
  for (const Case& one :
       {Case{Windows::kOff, absl::OkStatus(), false, "not wanted"},
        Case{Windows::kOn, absl::UnimplementedError("none here"), false,
             "no memory windows: none here"},
        Case{Windows::kAuto, absl::FailedPreconditionError("leaky"), false,
             "no memory windows: leaky"},
        Case{Windows::kOn, absl::FailedPreconditionError("leaky"), false, "memory windows"},
        Case{Windows::kOn, absl::OkStatus(), true, "over other channels"},
        Case{Windows::kOn, absl::OkStatus(), false, "over other channels", true}}) {
    server_.windows = one.can;
    options_.windows = one.wish;
    options_.rdma_read_channel = one.read_channel;
    options_.back_control_channel = one.back_control;
    pool_ = *BufferPool::Create(options_.buffers);
    ASSERT_OK(MakeSession());
    EXPECT_THAT(ReportOf(*session_).memory, HasSubstr(one.memory));
    const bool windows = ReportOf(*session_).memory_by_windows;
    EXPECT_EQ(server_.only().private_data.size(), windows ? 24u : 16u) << one.memory;
    session_.reset();
    pool_.reset();
  }
}

}  // namespace
}  // namespace dafs::client::testing
