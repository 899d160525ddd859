// A session whose buffers the server reaches by memory windows, against a server that does not know
// of them: the client ends each window itself, before it tells anybody of the answer.
#include <algorithm>

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
    return Await(files_->Read(who_, file_, wire::StateId(), 77, into, kSize));
  }
  SessionReport Report() { return files_->Report().session; }
  wire::FileHandle file_;
};

TEST_F(WindowsTest, AreBoundAndEndedOncePerTransfer) {
  MakeFiles();
  BufferLease target = files_->buffers().TryAcquire(BufferUse::kReadTarget, kSize);
  BufferLease source = files_->buffers().TryAcquire(BufferUse::kWriteSource, kSize);
  for (size_t i = 1; i <= 20; ++i) {
    ASSERT_OK(Read(target));
    EXPECT_EQ(target.payload()[kSize - 1], ScriptedByte(77 + kSize - 1));
    std::fill_n(source.payload(), kSize, std::byte(i));
    ASSERT_OK(Await(files_->Write(who_, file_, wire::StateId(), 0, source, 0, kSize,
                                  wire::StableHow::kUnstable)));
    EXPECT_EQ(server_.windows_bound, 2 * i);
    EXPECT_EQ(server_.windows_ended, 2 * i);
  }
  EXPECT_EQ(Report().memory, "memory windows");
  // The request said so, behind what E.9 defines.
  ASSERT_EQ(server_.only().private_data.size(), 24u);
}

TEST_F(WindowsTest, AreEndedWhenTheReaderIsTold) {
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

// The window is for as much as the request names, and for what its procedure does.
TEST_F(WindowsTest, GiveNoMoreThanTheRequestNeeds) {
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

dat::Task<void> ReadOne(Files& files, const Identity& who, const wire::FileHandle& file,
                        BufferLease* target, int number, std::vector<int>* told) {
  dat::Task<absl::StatusOr<ReadResult>> task =
      files.Read(who, file, wire::StateId(), 5, *target, kSize);
  absl::StatusOr<ReadResult> read = co_await task;
  told->push_back(read.ok() ? number : -1);
}

TEST_F(WindowsTest, AnswersAreToldInTheirOrder) {
  MakeFiles();
  ASSERT_OK(Await(files_->Lookup(who_, file_, "name")));
  server_.hold = true;
  std::vector<BufferLease> targets;
  std::vector<int> told;
  for (int i = 0; i < 6; ++i) {
    targets.push_back(files_->buffers().TryAcquire(BufferUse::kReadTarget, kSize));
    ASSERT_TRUE(targets.back());
  }
  for (int i = 0; i < 6; ++i) {
    dat::Start(ReadOne(*files_, who_, file_, &targets[static_cast<size_t>(i)], i, &told));
  }
  ASSERT_TRUE(Until([&] { return server_.only().held.size() == 6; }));
  EXPECT_EQ(server_.windows_ended, 0u);
  server_.hold = false;
  server_.ServeHeld(server_.only());
  ASSERT_TRUE(Until([&] { return told.size() == 6; }));
  EXPECT_EQ(told, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(server_.windows_ended, 6u);
}

// Each operation of the transport fails once, binding among them: the read comes through.
TEST_F(WindowsTest, AReadSurvivesTheLossOfTheConnectionAtAnyPoint) {
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

TEST_F(WindowsTest, ThereAreNoneWhereTheyAreNotWantedOrDoNotServe) {
  struct Case {
    Windows wish;
    absl::Status can;
    bool read_channel;
    const char* memory;
  };
  for (const Case& one :
       {Case{Windows::kOff, absl::OkStatus(), false, "not wanted"},
        Case{Windows::kOn, absl::UnimplementedError("none here"), false,
             "no memory windows: none here"},
        Case{Windows::kAuto, absl::FailedPreconditionError("leaky"), false,
             "no memory windows: leaky"},
        Case{Windows::kOn, absl::FailedPreconditionError("leaky"), false, "memory windows"},
        Case{Windows::kOn, absl::OkStatus(), true, "further channels"}}) {
    server_.windows = one.can;
    options_.windows = one.wish;
    options_.rdma_read_channel = one.read_channel;
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
