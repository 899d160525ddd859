// The errors of writes that fsync and close report.
#include "client/state/data/write_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dafs::client {
namespace {

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

}  // namespace
}  // namespace dafs::client
