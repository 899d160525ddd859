// Reads by reference against the real server: what is read without a request, and that no reader
// sees data that another writer has replaced.
#include "client/library/reference_reads.h"

#include <atomic>
#include <thread>

#include "client/library/library.h"
#include "server/session/worker.h"
#include "tests/client/library/async_fixture.h"

namespace dafs::client {
namespace {

constexpr uint32_t kBlock = wire::kExportedBlock;

class ReferenceReadsTest : public ServerTest {
 protected:
  void SetUp() override {
    adjust_ = [this](server::ServerOptions& options) {
      options.export_cache_bytes = cache_bytes_;
      options.exports[0].only_clients_change = only_clients_;
    };
    ServerTest::SetUp();
  }
  void TearDown() override {
    session_.reset();
    library_.reset();
    ServerTest::TearDown();
  }
  std::unique_ptr<Library> NewLibrary(size_t directory_bytes = size_t{1} << 20) {
    LibraryOptions options;
    options.server = server_->bound()[0].address.ToString();
    options.export_path = "/data";
    options.providers = {provider_.get()};
    options.client.buffers.bytes = size_t{8} << 20;
    options.client.backoff_least = absl::Milliseconds(5);
    options.client.reference_directory_bytes = directory_bytes;
    auto library = Library::Open(std::move(options));
    EXPECT_STATUS_OK(library);
    return library.ok() ? *std::move(library) : nullptr;
  }
  std::unique_ptr<ExportSession> NewSession(Library& library, Loop& loop) {
    auto session = ExportSession::Open(library, loop, root_user_);
    EXPECT_STATUS_OK(session);
    return session.ok() ? *std::move(session) : nullptr;
  }
  void Start() {
    loop_ = *Loop::Create();
    library_ = NewLibrary();
    session_ = NewSession(*library_, *loop_);
    ASSERT_NE(session_, nullptr);
    AwaitChannel();
  }
  void AwaitChannel() {
    const absl::Time end = Loop::Now() + absl::Seconds(20);
    while (!session_->references()->ready() && Loop::Now() < end) {
      loop_->RunOnce(absl::Milliseconds(10));
    }
    ASSERT_TRUE(session_->references()->ready());
  }
  std::unique_ptr<IoFile> Open(ExportSession& session, const std::string& name,
                               bool write = false) {
    FileOptions options;
    options.write = write;
    auto file = session.OpenFile(name, options);
    EXPECT_STATUS_OK(file);
    return file.ok() ? *std::move(file) : nullptr;
  }
  std::string ReadAt(ExportSession& session, IoFile& file, uint64_t offset, uint32_t size) {
    std::string text(size, '?');
    auto read = session.Read(file, {reinterpret_cast<std::byte*>(text.data()), size, {}}, offset);
    EXPECT_STATUS_OK(read);
    text.resize(read.ok() ? *read : 0);
    return text;
  }
  void WriteAt(ExportSession& session, IoFile& file, uint64_t offset, std::string text) {
    auto written = session.Write(
        file, {reinterpret_cast<std::byte*>(text.data()), static_cast<uint32_t>(text.size()), {}},
        offset);
    EXPECT_STATUS_OK(written);
  }
  const ReferenceReads::Counts& counts() const { return session_->references()->counts(); }

  size_t cache_bytes_ = size_t{1} << 20;
  bool only_clients_ = true;
  std::unique_ptr<Library> library_;
  std::unique_ptr<ExportSession> session_;
};

// Shows ODAFS-01, ODAFS-02, ODAFS-04: references on request, and reads without one.
TEST_F(ReferenceReadsTest, BlocksWithReferencesAreReadWithoutARequest) {
  Start();
  const std::string text = RandomText(64 * kBlock + 100, 1);
  MakeLocal("file", text);
  std::unique_ptr<IoFile> file = Open(*session_, "file");
  auto fetched = session_->FetchReferences(*file, 0, text.size());
  ASSERT_STATUS_OK(fetched);
  EXPECT_EQ(*fetched, 64u);  // not the one that ends the file
  const auto before = session_->files().Report().session;
  for (uint32_t block = 0; block < 64; ++block) {
    EXPECT_EQ(ReadAt(*session_, *file, block * kBlock, kBlock),
              text.substr(block * kBlock, kBlock));
  }
  EXPECT_EQ(ReadAt(*session_, *file, 5 * kBlock + 7, 100), text.substr(5 * kBlock + 7, 100));
  EXPECT_EQ(counts().by_reference, 65u);
  EXPECT_EQ(counts().stale, 0u);
  // The tail, and what is in two blocks, is read by requests.
  EXPECT_EQ(ReadAt(*session_, *file, 64 * kBlock, kBlock), text.substr(64 * kBlock));
  EXPECT_EQ(ReadAt(*session_, *file, kBlock - 10, 20), text.substr(kBlock - 10, 20));
  EXPECT_EQ(counts().by_reference, 65u);
  EXPECT_STATUS_OK(session_->CloseFile(*file));
}

TEST_F(ReferenceReadsTest, TheSecondReadOfABlockIsByReference) {
  Start();
  MakeLocal("file", RandomText(8 * kBlock, 2));
  std::unique_ptr<IoFile> file = Open(*session_, "file");
  const std::string first = ReadAt(*session_, *file, kBlock, kBlock);
  while (counts().references == 0) loop_->RunOnce(absl::Milliseconds(10));
  EXPECT_EQ(counts().by_reference, 0u);
  EXPECT_EQ(ReadAt(*session_, *file, kBlock, kBlock), first);
  EXPECT_EQ(counts().by_reference, 1u);
}

// Shows ODAFS-05, ODAFS-06: writes, truncation and removal by another client make references stale
// without a notice, and the read that follows is by a request.
TEST_F(ReferenceReadsTest, ChangesByAnotherClientAreSeenAtOnce) {
  Start();
  const std::unique_ptr<Library> other_library = NewLibrary(0);
  const std::unique_ptr<ExportSession> other = NewSession(*other_library, *loop_);
  EXPECT_EQ(other->references(), nullptr);
  MakeLocal("file", std::string(16 * kBlock, 'a'));
  std::unique_ptr<IoFile> file = Open(*session_, "file");
  std::unique_ptr<IoFile> writing = Open(*other, "file", true);
  ASSERT_STATUS_OK(session_->FetchReferences(*file, 0, 16 * kBlock));
  for (int round = 0; round < 300; ++round) {
    const std::string text(kBlock, static_cast<char>('b' + round % 20));
    const uint64_t offset = static_cast<uint64_t>(round % 15) * kBlock;
    WriteAt(*other, *writing, offset, text);
    EXPECT_EQ(ReadAt(*session_, *file, offset, kBlock), text);
    ASSERT_STATUS_OK(session_->FetchReferences(*file, offset, kBlock));
    EXPECT_EQ(ReadAt(*session_, *file, offset, kBlock), text);
  }
  EXPECT_GE(counts().stale, 280u);
  EXPECT_GE(counts().by_reference, 300u);
  ASSERT_STATUS_OK(other->Truncate(*writing, 2 * kBlock));
  EXPECT_EQ(ReadAt(*session_, *file, 5 * kBlock, kBlock), "");
  ASSERT_STATUS_OK(other->Truncate(*writing, 16 * kBlock));
  EXPECT_EQ(ReadAt(*session_, *file, 5 * kBlock, kBlock), std::string(kBlock, '\0'));
  // An open file stays readable when its name is gone or another's.
  ASSERT_STATUS_OK(session_->FetchReferences(*file, 0, kBlock));
  const std::string kept = ReadAt(*session_, *file, 0, kBlock);
  std::filesystem::rename(Local("file"), Local("moved"));
  MakeLocal("file", std::string(16 * kBlock, 'z'));
  EXPECT_EQ(ReadAt(*session_, *file, 0, kBlock), kept);
  std::filesystem::remove(Local("moved"));
  EXPECT_EQ(ReadAt(*session_, *file, 0, kBlock), kept);
}

// Shows ODAFS-08: a block that is used for other data has another version first.
TEST_F(ReferenceReadsTest, AStormOfEvictionsReturnsTheRightData) {
  cache_bytes_ = 16 * wire::kExportedStride;
  server_.reset();
  StartServer();
  Start();
  const std::string text = RandomText(200 * kBlock, 3);
  MakeLocal("file", text);
  std::unique_ptr<IoFile> file = Open(*session_, "file");
  std::mt19937_64 dice(4);
  for (int i = 0; i < 3000; ++i) {
    const uint64_t block = dice() % 199;
    EXPECT_EQ(ReadAt(*session_, *file, block * kBlock, kBlock),
              text.substr(block * kBlock, kBlock));
  }
  EXPECT_GT(counts().stale, 0u);
}

// Torn reads: another thread changes a file all the time, each time all of it, and no read returns
// a mixture, or an older state than an earlier read.
TEST_F(ReferenceReadsTest, ReadsAreNeverTornNorOlderThanEarlierOnes) {
  Start();
  MakeLocal("file", std::string(2 * kBlock, 'a'));
  std::unique_ptr<IoFile> file = Open(*session_, "file");
  std::atomic<bool> ends{false};
  std::atomic<uint32_t> written{0};
  std::thread writer([&] {
    const std::unique_ptr<Loop> loop = *Loop::Create();
    const std::unique_ptr<Library> library = NewLibrary(0);
    const std::unique_ptr<ExportSession> session = NewSession(*library, *loop);
    std::unique_ptr<IoFile> writing = Open(*session, "file", true);
    for (uint32_t n = 1; !ends; ++n) {
      std::string text(kBlock, '\0');
      for (size_t at = 0; at < kBlock; at += 4) std::memcpy(&text[at], &n, 4);
      WriteAt(*session, *writing, 0, text);
      written = n;
      if (n % 8 == 0) absl::SleepFor(absl::Milliseconds(1));  // lets references live for a while
    }
  });
  while (written == 0) absl::SleepFor(absl::Milliseconds(1));
  uint32_t last = 0;
  const absl::Time end = Loop::Now() + absl::Seconds(5);
  uint64_t reads = 0;
  for (; Loop::Now() < end; ++reads) {
    const uint32_t least = std::max<uint32_t>(last, written);
    const std::string text = ReadAt(*session_, *file, 0, kBlock);
    ASSERT_EQ(text.size(), kBlock);
    std::memcpy(&last, text.data(), 4);
    for (size_t at = 0; at < kBlock; at += 4) {
      ASSERT_EQ(std::memcmp(&text[at], &last, 4), 0) << "torn at " << at;
    }
    ASSERT_GE(last, least) << "older than a write that was answered, or than the last read";
  }
  ends = true;
  writer.join();
  RecordProperty("reads", std::to_string(reads));
  EXPECT_GT(counts().by_reference, 0u);
  EXPECT_GT(counts().stale, 0u);
}

// Shows ODAFS-07: the channel ends alone (an access exception does that, and so does a server that
// takes its memory back). The read is completed by a request, and a new channel follows.
TEST_F(ReferenceReadsTest, TheEndOfTheChannelIsNotTheEndOfTheSession) {
  Start();
  const std::string text = RandomText(4 * kBlock, 5);
  MakeLocal("file", text);
  std::unique_ptr<IoFile> file = Open(*session_, "file");
  for (int round = 0; round < 3; ++round) {
    ASSERT_STATUS_OK(session_->FetchReferences(*file, 0, 3 * kBlock));
    const uint64_t lost = counts().lost;
    // A reload takes the slabs back.
    server_->EndReferenceChannels();
    const absl::Time end = Loop::Now() + absl::Seconds(10);
    while (session_->references()->ready() && Loop::Now() < end) {
      EXPECT_EQ(ReadAt(*session_, *file, kBlock, kBlock), text.substr(kBlock, kBlock));
    }
    EXPECT_FALSE(session_->references()->ready());
    EXPECT_LE(counts().lost, lost + 1);
    EXPECT_EQ(ReadAt(*session_, *file, kBlock, kBlock), text.substr(kBlock, kBlock));
    AwaitChannel();
  }
  EXPECT_EQ(counts().channels, 4u);
  EXPECT_EQ(session_->files().DisconnectedFor(), absl::ZeroDuration());
}

// While local programs may change files, a lease of the kernel is what makes references valid.
TEST_F(ReferenceReadsTest, ChangesByALocalProgramAreSeenAtOnce) {
  only_clients_ = false;
  server_.reset();
  StartServer();
  Start();
  MakeLocal("file", std::string(8 * kBlock, 'a'));
  std::unique_ptr<IoFile> file = Open(*session_, "file");
  for (int round = 0; round < 20; ++round) {
    auto fetched = session_->FetchReferences(*file, 0, 8 * kBlock);
    ASSERT_STATUS_OK(fetched);
    EXPECT_EQ(*fetched, 7u);
    const std::string before = ReadAt(*session_, *file, kBlock, kBlock);
    EXPECT_EQ(before, std::string(kBlock, static_cast<char>('a' + round)));
    std::thread program(
        [&] { MakeLocal("file", std::string(8 * kBlock, static_cast<char>('b' + round))); });
    program.join();
    EXPECT_EQ(ReadAt(*session_, *file, kBlock, kBlock),
              std::string(kBlock, static_cast<char>('b' + round)));
  }
  EXPECT_GE(counts().by_reference, 20u);
  // No lease while a client has it open for writing, so no references.
  std::unique_ptr<IoFile> writing = Open(*session_, "file", true);
  auto fetched = session_->FetchReferences(*file, 0, 8 * kBlock);
  ASSERT_STATUS_OK(fetched);
  EXPECT_EQ(*fetched, 0u);
}

TEST_F(ReferenceReadsTest, AServerWithoutACacheIsReadByRequests) {
  cache_bytes_ = 0;
  server_.reset();
  StartServer();
  loop_ = *Loop::Create();
  library_ = NewLibrary();
  session_ = NewSession(*library_, *loop_);
  MakeLocal("file", std::string(4 * kBlock, 'a'));
  std::unique_ptr<IoFile> file = Open(*session_, "file");
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(ReadAt(*session_, *file, 0, kBlock), std::string(kBlock, 'a'));
  }
  EXPECT_FALSE(session_->references()->ready());
  EXPECT_EQ(counts().channels, 0u);
  EXPECT_TRUE(absl::IsUnavailable(session_->FetchReferences(*file, 0, kBlock).status()));
}

TEST_F(ReferenceReadsTest, AServerThatRestartsIsReadByReferenceAgain) {
  Start();
  const std::string text = RandomText(4 * kBlock, 6);
  MakeLocal("file", text);
  std::unique_ptr<IoFile> file = Open(*session_, "file");
  ASSERT_STATUS_OK(session_->FetchReferences(*file, 0, 3 * kBlock));
  EXPECT_EQ(ReadAt(*session_, *file, kBlock, kBlock), text.substr(kBlock, kBlock));
  server_.reset();
  StartServer();
  EXPECT_EQ(ReadAt(*session_, *file, kBlock, kBlock), text.substr(kBlock, kBlock));
  AwaitChannel();
}

}  // namespace
}  // namespace dafs::client
