// The parts that need no server: the table of credentials, the tracker of uncommitted writes, the
// choice of calls that may be repeated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/exchange/call.h"
#include "client/state/credentials.h"
#include "client/state/data/write_tracker.h"

namespace dafs::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

wire::CredHandle Handle(uint8_t n) {
  wire::CredHandle handle;
  handle.bytes[0] = n;
  return handle;
}
const auto kClient = wire::OpaqueFromUint64<wire::ClientId>(1);

TEST(CredentialsTest, KeepsTheMostRecentlyUsed) {
  Credentials table;
  Identity a{1, 1, {}}, b{2, 2, {2}}, c{3, 3, {}};
  EXPECT_THAT(table.Insert(kClient, a, Handle(1), 2), IsEmpty());
  EXPECT_THAT(table.Insert(kClient, b, Handle(2), 2), IsEmpty());
  EXPECT_EQ(table.Find(kClient, a), Handle(1));
  EXPECT_THAT(table.Insert(kClient, c, Handle(3), 2), ElementsAre(Handle(2)));
  EXPECT_EQ(table.Find(kClient, b), std::nullopt);
  EXPECT_EQ(table.TakeOldest(), Handle(1));
  table.Forget(Handle(3));
  EXPECT_EQ(table.size(), 0u);
}

TEST(CredentialsTest, FirstHandleOfAnIdentityIsKept) {
  Credentials table;
  Identity a{1, 1, {5, 6}};
  EXPECT_THAT(table.Insert(kClient, a, Handle(1), 9), IsEmpty());
  EXPECT_THAT(table.Insert(kClient, a, Handle(2), 9), ElementsAre(Handle(2)));
  EXPECT_EQ(table.Find(kClient, a), Handle(1));
  Identity other_groups{1, 1, {5}};
  EXPECT_EQ(table.Find(kClient, other_groups), std::nullopt);
}

TEST(CredentialsTest, HandlesBelongToOneClientId) {
  Credentials table;
  Identity a{1, 1, {}};
  table.Insert(kClient, a, Handle(1), 9);
  const auto other = wire::OpaqueFromUint64<wire::ClientId>(2);
  EXPECT_EQ(table.Find(other, a), std::nullopt);
  EXPECT_THAT(table.Insert(other, a, Handle(7), 9), IsEmpty());
  EXPECT_EQ(table.Find(other, a), Handle(7));
  EXPECT_EQ(table.Find(kClient, a), std::nullopt);
}

TEST(WriteTrackerTest, FsyncReportsAnErrorOnceForEachOpenFile) {
  WriteTracker tracker;
  WriteTracker::ErrorCursor writer = tracker.SampleErrors();
  WriteTracker::ErrorCursor other = tracker.SampleErrors();
  EXPECT_TRUE(tracker.ErrorForFsync(writer).ok());
  tracker.NoteFailure(absl::UnknownError("written behind"));
  WriteTracker::ErrorCursor later = tracker.SampleErrors();  // before any report
  EXPECT_TRUE(absl::IsUnknown(tracker.ErrorForFsync(other)));
  EXPECT_TRUE(tracker.ErrorForFsync(other).ok());
  WriteTracker::ErrorCursor after = tracker.SampleErrors();
  EXPECT_TRUE(tracker.ErrorForFsync(after).ok());
  EXPECT_TRUE(absl::IsUnknown(tracker.ErrorForFsync(writer)));
  EXPECT_TRUE(absl::IsUnknown(tracker.ErrorForFsync(later)));
  tracker.NoteFailure(absl::UnknownError("first"));
  tracker.NoteFailure(absl::DataLossError("second"));
  for (WriteTracker::ErrorCursor* cursor : {&writer, &other, &later, &after}) {
    EXPECT_TRUE(absl::IsDataLoss(tracker.ErrorForFsync(*cursor)));
    EXPECT_TRUE(tracker.ErrorForFsync(*cursor).ok());
  }
}

TEST(WriteTrackerTest, CloseReportsAnErrorAndLeavesItForFsync) {
  WriteTracker tracker;
  WriteTracker::ErrorCursor open = tracker.SampleErrors();
  EXPECT_TRUE(tracker.ErrorForClose(open).ok());
  tracker.NoteFailure(absl::UnknownError("written behind"));
  for (int descriptor = 0; descriptor < 3; ++descriptor) {
    EXPECT_TRUE(absl::IsUnknown(tracker.ErrorForClose(open)));
  }
  EXPECT_TRUE(tracker.HasUnseenError());
  EXPECT_TRUE(absl::IsUnknown(tracker.ErrorForFsync(open)));
  EXPECT_FALSE(tracker.HasUnseenError());
  EXPECT_TRUE(tracker.ErrorForClose(open).ok());
  EXPECT_TRUE(tracker.ErrorForFsync(open).ok());
}

// A database process closes its files and leaves fsync to another process, which opens them later.
TEST(WriteTrackerTest, FsyncOfALaterOpenReportsAnErrorThatOnlyCloseReported) {
  WriteTracker tracker;
  WriteTracker::ErrorCursor first = tracker.SampleErrors();
  tracker.NoteFailure(absl::UnknownError("written behind"));
  EXPECT_FALSE(tracker.ErrorForClose(first).ok());
  WriteTracker::ErrorCursor second = tracker.SampleErrors();
  EXPECT_TRUE(tracker.ErrorForClose(second).ok());  // no write of this open failed
  EXPECT_TRUE(absl::IsUnknown(tracker.ErrorForFsync(second)));
  WriteTracker::ErrorCursor third = tracker.SampleErrors();
  EXPECT_TRUE(tracker.ErrorForFsync(third).ok());
}

TEST(WriteTrackerTest, CloseOfALaterOpenReportsAnUnreportedError) {
  WriteTracker tracker;
  tracker.NoteFailure(absl::UnknownError("committed after the last close"));
  WriteTracker::ErrorCursor later = tracker.SampleErrors();
  EXPECT_TRUE(absl::IsUnknown(tracker.ErrorForClose(later)));
}

TEST(WriteTrackerTest, AfterAReportedFailureTheNextWriteIsInDoubtUntilOneSucceeds) {
  WriteTracker tracker;
  WriteTracker::ErrorCursor open = tracker.SampleErrors();
  EXPECT_FALSE(tracker.doubtful());
  tracker.NoteFailure(absl::UnknownError("written behind"));
  EXPECT_TRUE(tracker.doubtful());
  tracker.NoteWrite();  // to another part of the file, before any report
  EXPECT_TRUE(tracker.doubtful());
  EXPECT_FALSE(tracker.ErrorForClose(open).ok());
  EXPECT_FALSE(tracker.doubtful());
  tracker.NoteFailure(absl::UnknownError("written behind"));
  EXPECT_FALSE(tracker.ErrorForFsync(open).ok());
  EXPECT_TRUE(tracker.doubtful());
  tracker.NoteWrite();
  EXPECT_FALSE(tracker.doubtful());
}

TEST(CallTest, OnlyIdempotentCallsAreRepeated) {
  for (wire::Proc proc :
       {wire::Proc::kCreate, wire::Proc::kRemove, wire::Proc::kRename, wire::Proc::kLink,
        wire::Proc::kAppendInline, wire::Proc::kAppendDirect}) {
    EXPECT_FALSE(wire::InfoOf(proc).idempotent) << wire::Name(proc);
  }
  for (wire::Proc proc : {wire::Proc::kLookup, wire::Proc::kReadDirect, wire::Proc::kWriteDirect,
                          wire::Proc::kCommit, wire::Proc::kSetattrInline, wire::Proc::kClose}) {
    EXPECT_TRUE(wire::InfoOf(proc).idempotent) << wire::Name(proc);
  }
  Call<wire::OpenArgs> open;
  EXPECT_TRUE(open.idempotent());
  open.args.open_type = wire::OpenType::kCreate;
  open.args.createmode = wire::CreateMode::kExclusive;
  EXPECT_TRUE(open.idempotent());
  open.args.createmode = wire::CreateMode::kGuarded;
  EXPECT_FALSE(open.idempotent());
  open.args.createmode = wire::CreateMode::kUnchecked;
  open.args.claim_type = wire::OpenClaimType::kCreateUnlinked;
  EXPECT_FALSE(open.idempotent());
  Call<wire::AllocateArgs> allocate;
  for (uint32_t mode = 0; mode <= 6; ++mode) {
    allocate.args.mode = static_cast<wire::AllocateMode>(mode);
    EXPECT_EQ(allocate.idempotent(), mode < 5) << mode;
  }
}

}  // namespace
}  // namespace dafs::client
