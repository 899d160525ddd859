// libdafs as a program uses it (client/library/library.h), and the example program.
#include "client/library/library.h"

#include "tests/client/library/async_fixture.h"

namespace dafs::client {
namespace {

class LibraryTest : public ServerTest {
 protected:
  void OpenLibrary(const std::string& fence_id = "") {
    LibraryOptions options;
    options.client.fence_id = fence_id;
    options.server = server_->bound()[0].address.ToString();
    options.export_path = "/data";
    options.providers = {provider_.get()};
    options.client.buffers.bytes = size_t{8} << 20;
    auto library = Library::Open(std::move(options));
    ASSERT_STATUS_OK(library);
    library_ = *std::move(library);
    loop_ = *Loop::Create();
  }
  void TearDown() override {
    library_.reset();
    ServerTest::TearDown();
  }
  std::unique_ptr<ExportSession> OpenSession() {
    auto session = ExportSession::Open(*library_, *loop_, root_user_);
    EXPECT_STATUS_OK(session);
    return session.ok() ? *std::move(session) : nullptr;
  }
  std::unique_ptr<Library> library_;
};

// Shows DAFS-2.4.1-01, FAST03-4-01, FAST03-4-04: sessions, memory, credits, files, directories and
// I/O. AsyncIo and CompletionGroup signal the ends of asynchronous I/O.
TEST_F(LibraryTest, FileIsCreatedWrittenAndReadByAnotherSession) {
  OpenLibrary();
  std::filesystem::create_directories(Local("a/b"));
  const std::string text = RandomText(50'000, 1);
  std::unique_ptr<ExportSession> one = OpenSession(), two = OpenSession();
  ASSERT_TRUE(one != nullptr && two != nullptr);
  FileOptions writing;
  writing.write = writing.create = true;
  writing.mode = 0640;
  auto file = one->OpenFile("a/b/file", writing);
  ASSERT_STATUS_OK(file);
  Pages memory(16 * 4096);
  std::memcpy(memory.data(), text.data(), text.size());
  auto handle = one->Register(memory.all(), MemoryAccess::kWrites);
  ASSERT_STATUS_OK(handle);
  auto written = one->Write(**file, {memory.data(), 50'000, *handle}, 0);
  ASSERT_STATUS_OK(written);
  EXPECT_EQ(*written, 50'000u);
  EXPECT_STATUS_OK(one->Commit(**file));
  auto attributes = one->Stat(**file);
  ASSERT_STATUS_OK(attributes);
  EXPECT_EQ(attributes->object_size, 50'000u);
  EXPECT_EQ(attributes->mode & 0777, 0640u);
  std::memset(memory.data(), 0, text.size());
  auto read = two->Read(**file, {memory.data(), 60'000, {}}, 0);
  ASSERT_STATUS_OK(read);
  EXPECT_EQ(*read, 50'000u);
  EXPECT_EQ(memory.Text(0, 50'000), text);
  EXPECT_STATUS_OK(one->CacheHint(**file, 0, 0, wire::AccessPattern::kWillNeed, 0));
  BufferLease lease = one->files().buffers().TryAcquire(BufferUse::kReadTarget, 16384);
  auto listed = RunUntilDone(*loop_, one->files().directories().ReadDirectory(
                                         root_user_, one->root().handle, 0, {}, 8192, 0, lease));
  ASSERT_STATUS_OK(listed);
  wire::DirentView entry;
  EXPECT_TRUE(listed->entries.Next(entry));
  EXPECT_GE(one->files().Report().session.max_requests, 1u);
  EXPECT_STATUS_OK(one->CloseFile(**file));
  EXPECT_TRUE(two->OpenFile("a/nothing").status().code() != absl::StatusCode::kOk);
}

// Shows FAST03-5-03, FAST03-5-06: the memory is registered before, for synchronous and for
// asynchronous reads, and both see what a program of the server has written meanwhile.
TEST_F(LibraryTest, ReadsOfBothKindsReturnPresentData) {
  OpenLibrary();
  MakeLocal("file", RandomText(50'000, 4));
  std::unique_ptr<ExportSession> session = OpenSession();
  ASSERT_TRUE(session != nullptr);
  auto file = session->OpenFile("file");
  ASSERT_STATUS_OK(file);
  Pages memory(16 * 4096);
  auto handle = session->Register(memory.all(), MemoryAccess::kBoth);
  ASSERT_STATUS_OK(handle);
  CompletionGroup group(*loop_);
  const MemorySegment segment{memory.data(), 50'000, *handle};
  const FileRange range{0, 50'000};
  for (uint64_t seed = 5; seed < 8; ++seed) {
    std::string text = RandomText(50'000, seed);
    MakeLocal("file", text);
    EXPECT_STATUS_OK(session->Read(**file, segment, 0));
    EXPECT_TRUE(memory.Text(0, 50'000) == text);
    text = RandomText(50'000, seed + 10);
    MakeLocal("file", text);
    ASSERT_STATUS_OK(session->io().Read(**file, {&segment, 1}, {&range, 1}, group));
    IoCompletion end;
    EXPECT_EQ(group.Wait({&end, 1}), 1u);
    EXPECT_STATUS_OK(end.status);
    EXPECT_TRUE(memory.Text(0, 50'000) == text);
  }
  EXPECT_STATUS_OK(session->CloseFile(**file));
}

TEST_F(LibraryTest, FileStaysOpenWhileInUse) {
  OpenLibrary();
  MakeLocal("file", RandomText(100'000, 2));
  std::unique_ptr<ExportSession> session = OpenSession();
  ASSERT_TRUE(session != nullptr);
  auto file = session->OpenFile("file");
  ASSERT_STATUS_OK(file);
  Pages memory(4096);
  CompletionGroup group(*loop_);
  const MemorySegment segment{memory.data(), 4096, {}};
  const FileRange range{0, 4096};
  ASSERT_STATUS_OK(session->io().Read(**file, {&segment, 1}, {&range, 1}, group));
  EXPECT_TRUE(absl::IsFailedPrecondition(session->CloseFile(**file)));
  IoCompletion end;
  EXPECT_EQ(group.Wait({&end, 1}), 1u);
  EXPECT_STATUS_OK(session->CloseFile(**file));
}

// Shows DAFS-4.4.4.1-01, DAFS-4.4.4.1-02, FAST03-4-19.
TEST_F(LibraryTest, ClientsManageTheListsThatAdmitTheirFenceIds) {
  MakeLocal("file", "content");
  OpenLibrary("node1");
  const std::unique_ptr<Library> first = std::move(library_);
  auto denied = ExportSession::Open(*first, *loop_, root_user_);
  ASSERT_STATUS_OK(denied);
  const std::unique_ptr<Loop> loop = std::move(loop_);
  OpenLibrary("node2");
  std::unique_ptr<ExportSession> session = OpenSession();
  ASSERT_TRUE(session != nullptr);
  EXPECT_STATUS_OK((*denied)->OpenFile("file"));
  FenceChange change{.update = wire::FenceUpdate::kOverwrite, .ids = {"node2", "node1"}};
  ASSERT_STATUS_OK(session->paths().SetFence("file", change));
  auto list = session->paths().GetFence("file");
  ASSERT_STATUS_OK(list);
  EXPECT_EQ(*list, (std::vector<std::string>{"node1", "node2"}));
  change = {
      .access = wire::FenceAccess::kDeny, .update = wire::FenceUpdate::kRemove, .ids = {"node1"}};
  ASSERT_STATUS_OK(session->paths().SetFence("file", change));
  EXPECT_EQ(wire::DafsFromStatus((*denied)->OpenFile("file").status()), wire::DafsStatus::kAcces);
  EXPECT_STATUS_OK(session->OpenFile("file"));
  change.ids = {"node2"};
  EXPECT_EQ(wire::DafsFromStatus(session->paths().SetFence("file", change)),
            wire::DafsStatus::kInval);
  denied->reset();
  session.reset();
}

// The end of a session discards its outstanding I/O.
TEST_F(LibraryTest, EndOfSessionDiscardsItsOutstandingIo) {
  OpenLibrary();
  MakeLocal("file", RandomText(100'000, 3));
  Pages memory(1 << 16);
  CompletionGroup group(*loop_);
  std::unique_ptr<ExportSession> session = OpenSession();
  ASSERT_TRUE(session != nullptr);
  auto file = session->OpenFile("file");
  ASSERT_STATUS_OK(file);
  const MemorySegment segment{memory.data(), 1 << 16, {}};
  const FileRange range{0, 1 << 16};
  for (int i = 0; i < 5; ++i) {
    ASSERT_STATUS_OK(session->io().Read(**file, {&segment, 1}, {&range, 1}, group));
  }
  session.reset();
  EXPECT_EQ(group.outstanding() + group.ended(), 0u);
}

TEST_F(LibraryTest, UnknownExportIsReported) {
  LibraryOptions options;
  options.server = server_->bound()[0].address.ToString();
  options.export_path = "/nothing";
  options.providers = {provider_.get()};
  options.keep_leases = false;
  auto library = Library::Open(std::move(options));
  ASSERT_STATUS_OK(library);
  loop_ = *Loop::Create();
  EXPECT_FALSE(ExportSession::Open(**library, *loop_, root_user_).ok());
}

TEST_F(LibraryTest, ExampleProgramCopiesFile) {
  if (dat::testing::OverRdma()) GTEST_SKIP() << "the example supports TCP only";
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{256} << 10, size_t{5'000'001}}) {
    const std::string text = RandomText(bytes, bytes);
    MakeLocal("from", text);
    const std::string command =
        LIBRARY_EXAMPLE " " + server_->bound()[0].address.ToString() + " /data from to";
    EXPECT_EQ(std::system(command.c_str()), 0);
    EXPECT_TRUE(LocalContent("to") == text) << bytes;
  }
  const std::string command = LIBRARY_EXAMPLE " " + server_->bound()[0].address.ToString() +
                              " /data missing to 2>/dev/null";
  EXPECT_NE(std::system(command.c_str()), 0);
}

// docs/library.md, compiled as printed.
TEST_F(LibraryTest, ExampleOfTheDocumentReadsFile) {
  if (dat::testing::OverRdma()) GTEST_SKIP() << "the example supports TCP only";
  MakeLocal("file", RandomText(70'000, 1));
  const std::string server = server_->bound()[0].address.ToString();
  const std::string out = base_ + "/out";
  EXPECT_EQ(std::system((DOC_EXAMPLE " " + server + " /data file > " + out).c_str()), 0);
  std::ifstream printed(out);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(printed), {}), "70000 bytes\n");
}

}  // namespace
}  // namespace dafs::client
