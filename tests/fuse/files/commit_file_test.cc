// Data that a COMMIT finds lost: each open file reports the error once, whatever caused the COMMIT.
// The server is scripted, because a correct server loses nothing.
#include "fuse/files/commit_file.h"

#include <cstring>

#include "tests/client/scripted_fixture.h"

namespace dafs::fuse {
namespace {

using client::testing::Request;
using client::testing::ScriptedConnection;
using wire::DafsStatus;
using wire::Proc;

class CommitFileTest : public client::testing::ScriptedTest {
 protected:
  void SetUp() override {
    MakeFiles();
    client::OpenRequest request;
    request.name = "file";
    request.owner = "owner";
    request.share_access = wire::kShareBoth;
    request.create = true;
    absl::StatusOr<client::OpenFile> file = Await(files_->opens().Open(user_, request));
    ASSERT_OK(file);
    writer_->handle = file->handle;
    writer_->state_id = file->state_id;
    writer_->opener = std::make_shared<client::Identity>(user_);
    writer_->writes = std::make_shared<client::WriteTracker>();
    client::BufferLease lease = files_->buffers().TryAcquire(client::BufferUse::kWriteSource, 4096);
    std::memcpy(lease.payload(), "data", 4);
    absl::StatusOr<client::WriteResult> written = Await(files_->data().Write(
        user_, file->handle, file->state_id, 0, lease, 0, 4, wire::StableHow::kUnstable));
    ASSERT_OK(written);
    writer_->writes->NoteWrite();
  }

  void Refuse(Proc proc, DafsStatus status) {
    server_.script = [=](ScriptedConnection& c, const Request& request) {
      if (request.header.procedure != proc) return false;
      c.Refuse(request, status);
      return true;
    };
  }
  // Commits in the background, as for a closed file.
  void CommitInBackground() { RunUntilDone(*loop_, files_->commits().CommitNow(writer_->handle)); }
  absl::Status Fsync() {
    UserFiles user_files(*files_);
    return Await(CommitFile(user_files, writer_));
  }
  DafsStatus Reported(client::WriteTracker::ErrorCursor& cursor) {
    return wire::DafsFromStatus(writer_->writes->ErrorForFsync(cursor));
  }

  std::shared_ptr<OpenState> writer_ = std::make_shared<OpenState>();
  client::WriteTracker::ErrorCursor other_;  // of another descriptor
};

TEST_F(CommitFileTest, EachDescriptorReportsDataThatCannotBeRewritten) {
  server_.Restart();
  Refuse(Proc::kWriteInline, DafsStatus::kRofs);
  CommitInBackground();
  CommitInBackground();  // the lost data was dropped: succeeds
  EXPECT_OK(Fsync());
  EXPECT_EQ(Reported(writer_->errors), DafsStatus::kRofs);
  EXPECT_EQ(Reported(writer_->errors), DafsStatus::kOk);
  EXPECT_EQ(Reported(other_), DafsStatus::kRofs);
  EXPECT_EQ(Reported(other_), DafsStatus::kOk);
}

TEST_F(CommitFileTest, EachDescriptorReportsDataThatAnFsyncFoundLost) {
  Refuse(Proc::kCommit, DafsStatus::kIo);
  EXPECT_OK(Fsync());
  EXPECT_EQ(Reported(other_), DafsStatus::kIo);
  EXPECT_EQ(Reported(writer_->errors), DafsStatus::kIo);
  EXPECT_EQ(Reported(writer_->errors), DafsStatus::kOk);
}

TEST_F(CommitFileTest, EachDescriptorReportsOnceDataThatTheBackgroundFoundLost) {
  Refuse(Proc::kCommit, DafsStatus::kIo);
  CommitInBackground();
  CommitInBackground();  // retries
  server_.script = nullptr;
  EXPECT_OK(Fsync());
  EXPECT_EQ(Reported(writer_->errors), DafsStatus::kIo);
  EXPECT_EQ(Reported(other_), DafsStatus::kIo);
  EXPECT_OK(Fsync());
  EXPECT_EQ(Reported(writer_->errors), DafsStatus::kOk);
}

TEST_F(CommitFileTest, ACommitThatCanBeRetriedFailsForItsCallerOnly) {
  Refuse(Proc::kCommit, DafsStatus::kPerm);
  EXPECT_EQ(wire::DafsFromStatus(Fsync()), DafsStatus::kPerm);
  EXPECT_EQ(Reported(writer_->errors), DafsStatus::kOk);
  EXPECT_EQ(Reported(other_), DafsStatus::kOk);
  server_.script = nullptr;
  EXPECT_OK(Fsync());
  EXPECT_EQ(server_.written["file"].size(), 4u);
  EXPECT_FALSE(files_->commits().NeedsCommit(writer_->handle));
}

}  // namespace
}  // namespace dafs::fuse
