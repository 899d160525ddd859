// Asynchronous reads and writes when connections break and servers restart. Each is executed and
// completes once. Memory is not returned while a server could still access it.
#include <tuple>

#include "tests/client/faulty_provider.h"
#include "tests/client/library/async_fixture.h"

namespace dafs::client {
namespace {

constexpr uint32_t kBlock = 20'000;  // transferred directly, both ways
constexpr size_t kDepth = 16;

class AsyncFaultsTest : public AsyncTest {
 protected:
  // Runs `total` reads and writes of random blocks, kDepth in parallel, and checks each at its end.
  // `beside` runs after each completion.
  void Load(IoFile& file, std::string& model, int total, const std::function<void(int)>& beside) {
    Pages memory(kDepth * 20480);
    const MemoryHandle handle = Register(memory);
    const size_t blocks = model.size() / kBlock;
    std::mt19937_64 dice(static_cast<uint64_t>(total));
    std::vector<bool> busy(blocks, false);
    struct Out {
      bool write = false;
      size_t block = 0;
      bool out = false;
    };
    std::vector<Out> outs(kDepth);
    int issued = 0;
    auto issue = [&](uint64_t place) {
      Out& out = outs[place];
      do {
        out.block = dice() % blocks;
      } while (busy[out.block]);
      busy[out.block] = out.out = true;
      out.write = dice() % 2 == 0;
      std::byte* at = memory.data() + place * 20480;
      const uint64_t offset = out.block * kBlock;
      if (out.write) {
        const std::string text = RandomText(kBlock, dice());
        std::memcpy(at, text.data(), kBlock);
        model.replace(offset, kBlock, text);
      } else {
        std::memset(at, 0xee, kBlock);
      }
      ++issued;
      const MemorySegment segment{at, kBlock, place % 4 == 0 ? MemoryHandle() : handle};
      ASSERT_STATUS_OK(out.write ? Write(file, segment, offset, place)
                                 : Read(file, segment, offset, place));
    };
    for (size_t place = 0; place < kDepth; ++place) issue(place);
    for (int ended = 0; ended < total;) {
      const IoCompletion end = Next();
      Out& out = outs[end.cookie];
      ASSERT_TRUE(out.out);  // completes once
      out.out = false;
      ASSERT_STATUS_OK(end.status);
      ASSERT_EQ(end.count, kBlock);
      if (!out.write) {
        ASSERT_EQ(memory.Text(end.cookie * 20480, kBlock),
                  model.substr(out.block * kBlock, kBlock));
      }
      busy[out.block] = false;
      beside(++ended);
      if (issued < total) issue(end.cookie);
    }
    EXPECT_EQ(group_->outstanding() + group_->ended(), 0u);
    EXPECT_STATUS_OK(files_->buffers().user_memory().Deregister(handle));
  }
  ClientOptions FaultyOptions(FaultyProvider& faulty) {
    ClientOptions options = Options();
    options.providers = {&faulty};
    options.backoff_least = absl::Microseconds(200);
    return options;
  }
};

class CutTest : public AsyncFaultsTest,
                public testing::WithParamInterface<std::tuple<dat::FaultKind, Windows>> {
 protected:
  void SetUp() override {
    AsyncFaultsTest::SetUp();
    windows_ = std::get<Windows>(GetParam());
  }
  static dat::FaultKind Kind() { return std::get<dat::FaultKind>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(
    Kinds, CutTest,
    testing::Combine(testing::Values(dat::FaultKind::kPostFails, dat::FaultKind::kCutBefore,
                                     dat::FaultKind::kCutAfter, dat::FaultKind::kLoseCompletion),
                     testing::Values(Windows::kOff, Windows::kOn)));

TEST_P(CutTest, EveryIoCompletesOnceWhereverTheConnectionIsCut) {
  FaultyProvider faulty(*provider_);
  std::string model = RandomText(64 * kBlock, 1);
  int hit = 0;
  for (uint64_t message = 10; message <= 60; message += message < 30 ? 2 : 5) {
    SCOPED_TRACE(testing::Message() << "message " << message << " of the connection");
    faulty.plan = {Kind(), dat::kFaultSend, message};
    faulty.faulty = 1;
    faulty.connections = 0;
    StartIo(FaultyOptions(faulty));
    std::unique_ptr<IoFile> file = OpenIo("file", model);
    Load(*file, model, 60, [](int) {});
    if (HasFatalFailure()) return;
    EXPECT_TRUE(LocalContent("file") == model);
    CloseIo(*file);
    EXPECT_EQ(files_->buffers().counts().leased, 0u);
    EXPECT_EQ(files_->buffers().counts().quarantined, 0u);
    hit += faulty.connections - 1;
    StopIo();
  }
  EXPECT_GT(hit, 12);
}

// The connection breaks repeatedly, each time after some work.
TEST_P(CutTest, AllIoCompletesAcrossManyConnections) {
  FaultyProvider faulty(*provider_);
  faulty.plan = {Kind(), dat::kFaultSend, 40};
  faulty.faulty = 1000;
  std::string model = RandomText(64 * kBlock, 2);
  StartIo(FaultyOptions(faulty));
  std::unique_ptr<IoFile> file = OpenIo("file", model);
  Load(*file, model, 150, [](int) {});
  if (HasFatalFailure()) return;
  EXPECT_GT(faulty.connections, 3);
  EXPECT_TRUE(LocalContent("file") == model);
  faulty.faulty = 0;
  StopIo();
}

TEST_F(AsyncFaultsTest, ServerRestartIsTransparentToIo) {
  StartIo(Options());
  std::string model = RandomText(64 * kBlock, 2);
  std::unique_ptr<IoFile> file = OpenIo("file", model);
  int restarts = 0;
  Load(*file, model, 400, [&](int ended) {
    if (ended % 100 != 50) return;
    server_.reset();
    StartServer();
    ++restarts;
  });
  EXPECT_EQ(restarts, 4);
  EXPECT_TRUE(LocalContent("file") == model);
  CloseIo(*file);
}

// Memory that is registered while no session exists is registered with the next session.
TEST_F(AsyncFaultsTest, MemoryIsRegisteredWithEachNewSession) {
  StartIo(Options());
  std::unique_ptr<IoFile> file = OpenIo("file", RandomText(kBlock, 3));
  server_.reset();
  Pages memory(40960);
  const MemoryHandle handle = Register(memory);
  ASSERT_STATUS_OK(Read(*file, {memory.data(), kBlock, handle}, 0));
  for (int i = 0; i < 20; ++i) loop_->RunOnce(absl::Milliseconds(1));
  EXPECT_EQ(group_->ended(), 0u);
  StartServer();
  EXPECT_STATUS_OK(Next().status);
  EXPECT_EQ(memory.Text(0, kBlock), LocalContent("file"));
  CloseIo(*file);
}

TEST_F(AsyncFaultsTest, IoCanBeCancelledWithoutServer) {
  StartIo(Options());
  std::unique_ptr<IoFile> file = OpenIo("file", RandomText(kBlock, 4));
  Pages memory(40960);
  const MemoryHandle handle = Register(memory);
  server_.reset();
  while (files_->Report().session.up) loop_->RunOnce(absl::Milliseconds(1));
  std::vector<IoCompletion> none(1);
  auto id = Read(*file, {memory.data(), kBlock, handle}, 0);
  ASSERT_STATUS_OK(id);
  EXPECT_EQ(group_->Wait(none, absl::Milliseconds(30)), 0u);
  EXPECT_STATUS_OK(io_->Cancel(*id));
  EXPECT_EQ(group_->ended(), 1u);
  EXPECT_TRUE(absl::IsCancelled(Next().status));
  // The file can be destroyed and its memory reused, although a request still waits for a session.
  EXPECT_STATUS_OK(files_->buffers().user_memory().Deregister(handle));
  std::memset(memory.data(), 0x22, 40960);
  StartServer();
  for (int i = 0; i < 50; ++i) loop_->RunOnce(absl::Milliseconds(2));
  EXPECT_EQ(memory.Text(0, 40960), std::string(40960, '\x22'));
  CloseIo(*file);
}

}  // namespace
}  // namespace dafs::client
