// Which files' attributes are invalidated after a kill of mount.dafs.
#include "fuse/cache/outdated_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dafs::fuse {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class OutdatedFilesTest : public testing::Test {
 protected:
  OutdatedFilesTest() {
    files_.Add(7);
    files_.Add(8);
  }
  OutdatedFiles files_;
};

TEST_F(OutdatedFilesTest, AFileThatTheKernelAsksForIsNotInvalidated) {
  files_.Asked(7);
  files_.Asked(9);
  EXPECT_THAT(files_.TakeUnasked(), ElementsAre(8));
  EXPECT_FALSE(files_.Answered(7, true));
  EXPECT_FALSE(files_.Answered(9, false));
  EXPECT_THAT(files_.TakeUnasked(), IsEmpty());
}

TEST_F(OutdatedFilesTest, AnAnsweredFileIsNotInvalidated) {
  files_.Asked(7);
  EXPECT_FALSE(files_.Answered(7, true));
  EXPECT_THAT(files_.TakeUnasked(), ElementsAre(8));
}

TEST_F(OutdatedFilesTest, TheLastAnswerWithoutAttributesInvalidates) {
  files_.Asked(7);
  files_.Asked(7);
  EXPECT_THAT(files_.TakeUnasked(), ElementsAre(8));
  EXPECT_FALSE(files_.Answered(7, false));
  EXPECT_TRUE(files_.Answered(7, false));
  files_.Asked(7);
  EXPECT_FALSE(files_.Answered(7, false));
}

TEST_F(OutdatedFilesTest, AnyAnswerWithAttributesSuffices) {
  files_.Asked(7);
  files_.Asked(7);
  EXPECT_FALSE(files_.Answered(7, true));
  EXPECT_FALSE(files_.Answered(7, false));
  EXPECT_THAT(files_.TakeUnasked(), ElementsAre(8));
}

}  // namespace
}  // namespace dafs::fuse
