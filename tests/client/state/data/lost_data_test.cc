// Errors of data that did not reach the disk.
#include "client/state/data/lost_data.h"

#include <gtest/gtest.h>

namespace dafs::client {
namespace {

class LostDataTest : public ::testing::Test {
 protected:
  bool IsLost() { return absl::IsDataLoss(lost_.Take(file_)); }

  LostData lost_;
  wire::FileHandle file_;
  const absl::Status why_ = absl::DataLossError("EIO");
};

TEST_F(LostDataTest, ErrorIsReturnedOnceAndForItsFileOnly) {
  EXPECT_FALSE(IsLost());
  EXPECT_TRUE(lost_.Note(file_, why_));
  wire::FileHandle other;
  other.fileid.bytes[0] = 1;
  EXPECT_TRUE(lost_.Take(other).ok());
  EXPECT_TRUE(IsLost());
  EXPECT_FALSE(IsLost());
}

TEST_F(LostDataTest, RetryOfACommitReportsNoSecondErrorUntilOneSucceeds) {
  EXPECT_TRUE(lost_.Note(file_, why_, /*once=*/true));
  EXPECT_TRUE(IsLost());
  EXPECT_FALSE(lost_.Note(file_, why_, /*once=*/true));
  EXPECT_FALSE(IsLost());
  EXPECT_FALSE(lost_.Note(file_, why_));  // a program waits for this COMMIT
  EXPECT_TRUE(IsLost());
  lost_.Recovered(file_);
  EXPECT_TRUE(lost_.Note(file_, why_, /*once=*/true));
  EXPECT_TRUE(IsLost());
}

TEST_F(LostDataTest, LossAfterDroppedDataIsANewOne) {
  lost_.NoteDropped(file_, why_);
  EXPECT_TRUE(IsLost());
  EXPECT_TRUE(lost_.Note(file_, why_, /*once=*/true));
  EXPECT_TRUE(IsLost());
}

TEST_F(LostDataTest, SuccessOfALaterCommitDoesNotHideAnError) {
  EXPECT_TRUE(lost_.Note(file_, why_));
  lost_.Recovered(file_);
  EXPECT_TRUE(IsLost());
  EXPECT_FALSE(IsLost());
}

}  // namespace
}  // namespace dafs::client
