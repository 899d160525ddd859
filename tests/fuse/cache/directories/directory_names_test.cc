#include "fuse/cache/directories/directory_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dafs::fuse {
namespace {

constexpr uint64_t kDirectory = 17;
constexpr uint64_t kOther = 18;

class DirectoryNamesTest : public testing::Test {
 protected:
  bool Insert(const std::string& name, uint64_t nodeid, absl::Duration validity) {
    return names_.Insert(kDirectory, name, nodeid, now_, now_ + validity);
  }
  bool Has(uint64_t directory, const std::string& name) const {
    return names_.Find(directory, name, now_).has_value();
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  DirectoryNames names_{now_};
};

TEST_F(DirectoryNamesTest, NamesLastUntilTheirTimeHasPassed) {
  EXPECT_TRUE(Insert("file", 40, absl::Seconds(3)));
  EXPECT_TRUE(Insert("none", 0, absl::Seconds(30)));
  std::optional<DirectoryNames::Name> file = names_.Find(kDirectory, "file", now_);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->nodeid, 40u);
  EXPECT_GE(file->given, now_);
  EXPECT_LE(file->given, now_ + absl::Milliseconds(10));
  EXPECT_FALSE(Has(kOther, "file"));
  now_ += absl::Seconds(3);
  EXPECT_TRUE(Has(kDirectory, "file"));
  now_ += absl::Seconds(2);
  EXPECT_FALSE(Has(kDirectory, "file"));
  EXPECT_EQ(names_.NamesOf(kDirectory, now_).size(), 1u);
  EXPECT_EQ(names_.NamesOf(kDirectory, now_)[0].name, "none");
  EXPECT_THAT(names_.Directories(kDirectory % DirectoryNames::kShards),
              testing::ElementsAre(kDirectory));
}

TEST_F(DirectoryNamesTest, ALaterAnswerDoesNotEndAnEarlierOne) {
  EXPECT_TRUE(Insert("file", 40, absl::Seconds(60)));
  EXPECT_TRUE(Insert("file", 41, absl::Seconds(3)));
  now_ += absl::Seconds(59);
  ASSERT_TRUE(Has(kDirectory, "file"));
  EXPECT_EQ(names_.Find(kDirectory, "file", now_)->nodeid, 41u);
}

TEST_F(DirectoryNamesTest, RenameMovesTheNameWithItsTime) {
  EXPECT_TRUE(Insert("a", 40, absl::Seconds(60)));
  EXPECT_TRUE(names_.Insert(kOther, "b", 41, now_, now_ + absl::Seconds(9)));
  const auto moves = names_.Moved({kDirectory, "a"}, {kOther, "b"}, false, now_);
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].nodeid, 40u);
  EXPECT_EQ(moves[0].from, (DentryName{kDirectory, "a"}));
  EXPECT_EQ(moves[0].to, (DentryName{kOther, "b"}));
  EXPECT_EQ(names_.Find(kOther, "b", now_ + absl::Seconds(59))->nodeid, 40u);
  EXPECT_TRUE(names_.Moved({kDirectory, "unknown"}, {kOther, "c"}, false, now_).empty());
}

TEST_F(DirectoryNamesTest, ExchangeMovesBothNames) {
  EXPECT_TRUE(Insert("a", 40, absl::Seconds(60)));
  EXPECT_TRUE(Insert("b", 41, absl::Seconds(60)));
  EXPECT_EQ(names_.Moved({kDirectory, "a"}, {kDirectory, "b"}, true, now_).size(), 2u);
  EXPECT_EQ(names_.Find(kDirectory, "a", now_)->nodeid, 41u);
  EXPECT_EQ(names_.Find(kDirectory, "b", now_)->nodeid, 40u);
}

TEST_F(DirectoryNamesTest, ForgottenNodesLoseTheirNames) {
  EXPECT_TRUE(Insert("file", 40, absl::Seconds(60)));
  EXPECT_TRUE(Insert("replaced", 42, absl::Seconds(60)));
  names_.Forget(40, {kDirectory, "file"});
  names_.Forget(41, {kDirectory, "replaced"});  // another node had this name before
  EXPECT_FALSE(Has(kDirectory, "file"));
  EXPECT_TRUE(Has(kDirectory, "replaced"));
  names_.Forget(kDirectory, {1, "directory"});
  EXPECT_FALSE(Has(kDirectory, "replaced"));
  EXPECT_EQ(names_.size(), 0u);
  EXPECT_TRUE(names_.Directories(kDirectory % DirectoryNames::kShards).empty());
}

TEST_F(DirectoryNamesTest, NamesBeyondTheLimitAreRefusedUntilOthersHaveExpired) {
  for (size_t i = 0; i < DirectoryNames::kMostNames; ++i) {
    ASSERT_TRUE(Insert("file " + std::to_string(i), 40 + i, absl::Seconds(3)));
  }
  EXPECT_FALSE(Insert("one more", 7, absl::Seconds(3)));
  EXPECT_TRUE(Insert("file 5", 7, absl::Seconds(3)));
  now_ += absl::Seconds(5);
  EXPECT_TRUE(Insert("one more", 7, absl::Seconds(3)));
  EXPECT_EQ(names_.size(), 1u);
}

TEST_F(DirectoryNamesTest, AbsentNamesHaveLimitsOfTheirOwn) {
  for (size_t i = 0; i < DirectoryNames::kMostAbsent; ++i) {
    ASSERT_TRUE(Insert("none " + std::to_string(i), 0, absl::Seconds(30)));
  }
  EXPECT_FALSE(Insert("none", 0, absl::Seconds(30)));
  EXPECT_TRUE(Insert("file", 40, absl::Seconds(30)));
  EXPECT_FALSE(Insert("file", 0, absl::Seconds(30)));
  EXPECT_TRUE(Insert("none 0", 40, absl::Seconds(30)));  // exists by now: one less is absent
  EXPECT_TRUE(Insert("none", 0, absl::Seconds(30)));

  const size_t directories = DirectoryNames::kMostAbsentOfAll / DirectoryNames::kMostAbsent;
  for (size_t d = 1; d < directories; ++d) {
    for (size_t i = 0; i < DirectoryNames::kMostAbsent; ++i) {
      ASSERT_TRUE(names_.Insert(kDirectory + d, "none " + std::to_string(i), 0, now_,
                                now_ + absl::Seconds(30)));
    }
  }
  EXPECT_FALSE(names_.Insert(7, "none", 0, now_, now_ + absl::Seconds(30)));
  names_.Forget(kDirectory, {1, "directory"});
  EXPECT_TRUE(names_.Insert(7, "none", 0, now_, now_ + absl::Seconds(30)));
}

TEST_F(DirectoryNamesTest, AListingIsRememberedUntilTheDirectoryIsForgotten) {
  EXPECT_FALSE(names_.ListingOf(kDirectory).cached);
  names_.CachesListing(kDirectory);
  EXPECT_TRUE(names_.ListingOf(kDirectory).cached);
  EXPECT_FALSE(names_.ListingOf(kDirectory).names);
  names_.Listed(kDirectory, {.asked = 7, .only_clients = true});
  EXPECT_EQ(names_.ListingOf(kDirectory).names.asked, 7u);
  names_.Forget(kDirectory, {1, "directory"});
  EXPECT_FALSE(names_.ListingOf(kDirectory).cached);
}

TEST_F(DirectoryNamesTest, DistrustedDirectoriesKeepNoNewNames) {
  EXPECT_TRUE(Insert("file", 40, absl::Seconds(60)));
  names_.Distrust(kDirectory, now_ + absl::Seconds(30));
  EXPECT_FALSE(Insert("file", 40, absl::Seconds(60)));
  EXPECT_TRUE(names_.Insert(kOther, "file", 40, now_, now_ + absl::Seconds(60)));
  now_ += absl::Seconds(30);
  EXPECT_TRUE(Insert("file", 40, absl::Seconds(60)));
}

}  // namespace
}  // namespace dafs::fuse
