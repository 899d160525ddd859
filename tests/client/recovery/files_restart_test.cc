// Files across a restart of the real server, and across the loss of its machine: what survives, and
// what is reopened and rewritten.
#include <fcntl.h>
#include <unistd.h>

#include "client/batch/batch.h"
#include "client/recovery/calls/data_parts.h"
#include "tests/client/server_fixture.h"
#include "tests/server/mounts_differ.h"
#include "wire/protocol/status.h"

namespace dafs::client {
namespace {

class FilesRestartTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (!IsSkipped()) StartClient(Options());
  }
  void StopServer() { server_.reset(); }
  // Simulates the loss of the machine: the server's record of clients and its unstable writes are
  // lost.
  void LoseMachine() {
    StopServer();
    std::filesystem::remove(base_ + "/state/write-verifier");
    std::filesystem::remove(base_ + "/state/clients");
  }

  absl::StatusOr<OpenFile> Create(const std::string& name, uint32_t mode) {
    OpenRequest request = ToOpen(name);
    request.create = true;
    request.attributes.mode = mode;
    request.attributes.set(wire::kFattrMode);
    return Await(files_->opens().Open(user_, request));
  }
  absl::Status Write(const OpenFile& file, std::string_view data) {
    BufferLease lease = Lease(BufferUse::kWriteSource, 4096);
    std::memcpy(lease.payload(), data.data(), data.size());
    return Await(files_->data().Write(user_, file.handle, file.state_id, 0, lease, 0,
                                      static_cast<uint32_t>(data.size()),
                                      wire::StableHow::kUnstable))
        .status();
  }
  absl::StatusOr<std::string> Read(const OpenFile& file) {
    BufferLease lease = Lease(BufferUse::kReadTarget, 4096);
    absl::StatusOr<ReadResult> read =
        Await(files_->data().Read(user_, file.handle, file.state_id, 0, lease, 4096));
    if (!read.ok()) return read.status();
    return std::string(reinterpret_cast<const char*>(lease.payload()), read->count);
  }
  absl::Status Commit(const OpenFile& file) {
    return Await(files_->commits().Commit(user_, file.handle, 0, 0)).status();
  }
};

// Shows DAFS-4.2.3-01: the client commits its own unstable writes to the range before it submits
// the batch. A batch write is on stable storage when it is reported, and recovery does not
// overwrite it with older data.
TEST_F(FilesRestartTest, RecoveryDoesNotOverwriteBatchWritesWithOlderData) {
  absl::StatusOr<OpenFile> file = Create("f", 0644);
  ASSERT_STATUS_OK(file);
  ASSERT_STATUS_OK(Write(*file, "old old old"));
  BufferLease lease = Lease(BufferUse::kWriteSource, 4096);
  std::memcpy(lease.payload(), "new", 3);
  const LeaseBatchData data(LeasePart{&files_->buffers(), &lease, 0, 3});
  BatchItem item;
  item.rw_flag = wire::RwFlag::kWrite;
  item.file = file->handle;
  item.state_id = file->state_id;
  item.chunks.push_back({.offset = 4, .byte_count = 3});
  item.data = &data;
  Batches batches(*files_);
  auto results = Await(batches.Run(user_, {&item, 1}));
  ASSERT_STATUS_OK(results);
  ASSERT_STATUS_OK((*results)[0].status);
  LoseMachine();
  StartServer();
  EXPECT_STATUS_OK(Commit(*file));
  EXPECT_EQ(LocalContent("f"), "old new old");
}

// OPEN_EXECUTE (1002) grants a right that no other OPEN would.
TEST_F(FilesRestartTest, OpenForExecutionIsReclaimed) {
  MakeLocal("program", "text");
  ASSERT_EQ(chmod(Local("program").c_str(), 0711), 0);
  absl::StatusOr<Node> node = Await(files_->names().Lookup(user_, root_.handle, "program"));
  ASSERT_STATUS_OK(node);
  absl::StatusOr<OpenFile> file =
      Await(files_->opens().OpenForExecution(user_, node->handle, "owner"));
  ASSERT_STATUS_OK(file);
  StopServer();
  StartServer();
  EXPECT_THAT(Read(*file), testing::Property(&absl::StatusOr<std::string>::ok, true));
  EXPECT_EQ(*Read(*file), "text");
  LoseMachine();  // the server forgets the open, and the client sends another one
  StartServer();
  absl::StatusOr<std::string> read = Read(*file);
  ASSERT_STATUS_OK(read);
  EXPECT_EQ(*read, "text");
}

// Shows DAFS-6.5.8-07.
TEST_F(FilesRestartTest, ClosedReadOnlyFileIsRewritten) {
  absl::StatusOr<OpenFile> file = Create("f", 0444);
  ASSERT_STATUS_OK(file);
  ASSERT_STATUS_OK(Write(*file, "data"));
  ASSERT_STATUS_OK(Await(files_->opens().Close(file->state_id)));
  LoseMachine();
  ASSERT_EQ(truncate(Local("f").c_str(), 0), 0);
  StartServer();
  ASSERT_STATUS_OK(Commit(*file));
  EXPECT_EQ(LocalContent("f"), "data");
}

// The client keeps large writes in the buffers from which they were sent, and copies smaller ones.
// Shows DAFS-6.5.8-07.
TEST_F(FilesRestartTest, DataKeptInBuffersIsRewritten) {
  StopClient();
  ClientOptions options = Options();
  options.buffers.bytes = size_t{33} << 20;  // twelve of the sixteen buffers for writes may be kept
  StartClient(options);
  constexpr uint32_t kSize = 1u << 20;
  absl::StatusOr<OpenFile> file = Create("f", 0644);
  ASSERT_STATUS_OK(file);
  BufferPool& pool = files_->buffers();
  std::string content;
  for (uint32_t i = 0; i < 12; ++i) {
    const uint32_t size = i % 4 == 3 ? kSize / 2 : kSize;
    BufferLease lease = Lease(BufferUse::kWriteSource, size);
    std::memset(lease.payload(), 'a' + static_cast<int>(i), size);
    lease.Seal();
    const absl::StatusOr<WriteResult> written =
        Await(files_->data().Write(user_, file->handle, file->state_id, content.size(), lease, 0,
                                   size, wire::StableHow::kUnstable));
    ASSERT_STATUS_OK(written);
    ASSERT_EQ(written->count, size);
    content.append(size, static_cast<char>('a' + i));
  }
  EXPECT_EQ(pool.counts().kept, 9u);
  EXPECT_GT(client_->uncommitted().bytes(), 0u);
  {  // the next holders of the other buffers overwrite them
    std::vector<BufferLease> others;
    while (BufferLease other = pool.TryAcquire(BufferUse::kWriteSource, kSize)) {
      std::memset(other.payload(), '?', kSize);
      others.push_back(std::move(other));
    }
    EXPECT_EQ(others.size(), 7u);
  }
  LoseMachine();
  ASSERT_EQ(truncate(Local("f").c_str(), 0), 0);
  StartServer();
  ASSERT_STATUS_OK(Commit(*file));
  EXPECT_TRUE(LocalContent("f") == content);
  EXPECT_EQ(client_->uncommitted().bytes(), 0u);
  EXPECT_TRUE(pool.TryAcquire(BufferUse::kWriteSource, kSize));
  EXPECT_EQ(pool.counts().kept, 0u);
}

// The server's page cache survives the end of its process. A rewrite would undo later writes by
// others.
TEST_F(FilesRestartTest, RestartOfTheServerProcessCausesNoRewrite) {
  if (!server::MountsDiffer()) {
    GTEST_SKIP() << "before Linux 6.8 a server treats every restart as a loss of data";
  }
  absl::StatusOr<OpenFile> file = Create("f", 0644);
  ASSERT_STATUS_OK(file);
  ASSERT_STATUS_OK(Write(*file, "old"));
  StopServer();
  MakeLocal("f", "new");
  StartServer();
  ASSERT_STATUS_OK(Commit(*file));
  EXPECT_EQ(LocalContent("f"), "new");
  EXPECT_EQ(client_->uncommitted().bytes(), 0u);
}

// A rewrite could undo the writes of the next holder of the lock.
TEST_F(FilesRestartTest, DataWrittenUnderALockIsStableBeforeTheNextOwner) {
  absl::StatusOr<OpenFile> file = Create("f", 0644);
  ASSERT_STATUS_OK(file);
  const LockOwner owner{file->handle, file->state_id};
  absl::StatusOr<LockAnswer> lock = Await(files_->locks().Lock(user_, owner, {0, 9, true}));
  ASSERT_STATUS_OK(lock);
  ASSERT_STATUS_OK(Write(*file, "mine"));
  ASSERT_STATUS_OK(Await(files_->locks().Unlock(user_, owner, 0, 9)));
  EXPECT_FALSE(client_->uncommitted().Holds(file->handle));
}

// Another client has since taken the lock and written under it.
TEST_F(FilesRestartTest, DataWrittenUnderALostLockIsNotRewritten) {
  absl::StatusOr<OpenFile> file = Create("f", 0644);
  ASSERT_STATUS_OK(file);
  const LockOwner owner{file->handle, file->state_id};
  ASSERT_STATUS_OK(Await(files_->locks().Lock(user_, owner, {0, 9, true})));
  ASSERT_STATUS_OK(Write(*file, "mine"));
  StopServer();
  std::filesystem::remove(base_ + "/state/write-verifier");  // the machine lost its page cache
  const int other = open(Local("f").c_str(), O_RDWR | O_CLOEXEC);
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_len = 10;
  ASSERT_EQ(fcntl(other, F_OFD_SETLK, &range), 0);
  ASSERT_EQ(pwrite(other, "theirs", 6, 0), 6);
  StartServer();
  EXPECT_FALSE(Write(*file, "more").ok());
  EXPECT_FALSE(client_->uncommitted().Holds(file->handle));
  EXPECT_FALSE(files_->commits().TakeFailure(file->handle).ok());
  ASSERT_STATUS_OK(Commit(*file));
  EXPECT_EQ(LocalContent("f"), "theirs");
  close(other);
}

// If the client released a lock before its data is stable, it could not reclaim the lock from a
// server that lost that data. The next holder would not see the data.
TEST_F(FilesRestartTest, LockIsHeldOnCloseUntilItsDataIsStable) {
  absl::StatusOr<OpenFile> file = Create("f", 0644);
  ASSERT_STATUS_OK(file);
  const LockOwner owner{file->handle, file->state_id};
  const wire::LockRange flock{wire::kFlockByte, wire::kFlockByte, true};
  ASSERT_STATUS_OK(Await(files_->locks().Lock(user_, owner, flock)));
  ASSERT_STATUS_OK(Write(*file, "mine"));
  StopServer();
  std::filesystem::remove(base_ + "/state/write-verifier");  // the machine lost its page cache
  ASSERT_EQ(truncate(Local("f").c_str(), 0), 0);
  bool closed = false;
  Start([](Files& files, OpenFile opened, bool& done) -> Task<void> {
    Task<absl::Status> closing = files.opens().Close(opened.state_id);
    absl::Status status = co_await closing;
    EXPECT_STATUS_OK(status);
    done = true;
  }(*files_, *file, closed));
  Await(loop_->Sleep(absl::Milliseconds(50)));
  EXPECT_FALSE(closed);
  EXPECT_FALSE(client_->locks().HeldBy(file->handle, file->state_id).empty());
  StartServer();
  for (int i = 0; i < 4000 && !closed; ++i) Await(loop_->Sleep(absl::Milliseconds(5)));
  ASSERT_TRUE(closed);
  EXPECT_EQ(LocalContent("f"), "mine");
  EXPECT_EQ(client_->locks().count(), 0u);
  EXPECT_FALSE(client_->uncommitted().Holds(file->handle));
}

}  // namespace
}  // namespace dafs::client
