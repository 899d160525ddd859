#include "fuse/cache/directories/whole_directories.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dafs::fuse {
namespace {

using Answer = WholeDirectories::Outcome;
using testing::UnorderedElementsAre;

class WholeDirectoriesTest : public testing::Test {
 protected:
  static wire::FileHandle Handle(uint8_t number) {
    wire::FileHandle handle;
    handle.fileid.bytes[0] = number;
    return handle;
  }
  // Lists `directory`, which has `names`.
  void List(const wire::FileHandle& directory, const std::vector<std::string>& names) {
    whole_.EndListing(directory, whole_.BeginListing(directory), names, promise_, until_);
  }
  bool IsAbsent(const wire::FileHandle& directory, std::string_view name) const {
    return static_cast<bool>(whole_.PromiseOfAbsence(directory, name, now_));
  }
  bool IsWhole(const wire::FileHandle& directory) const {
    return whole_.NamesOf(directory, SIZE_MAX, now_).has_value();
  }
  void Change(std::string_view appears, std::string_view vanished,
              Answer outcome = Answer::kKnown) {
    whole_.End(directory_, whole_.Begin(directory_, appears), vanished, outcome);
  }

  const wire::FileHandle directory_ = Handle(1);
  const wire::FileHandle other_ = Handle(2);
  const client::Promise promise_ = {.asked = 7, .only_clients = true};
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  const absl::Time until_ = now_ + absl::Minutes(10);
  WholeDirectories whole_;
};

TEST_F(WholeDirectoriesTest, OtherNamesOfAListedDirectoryAreAbsent) {
  EXPECT_FALSE(IsAbsent(directory_, "none"));
  List(directory_, {"file"});
  EXPECT_EQ(whole_.PromiseOfAbsence(directory_, "none", now_), promise_);
  EXPECT_FALSE(IsAbsent(directory_, "file"));
  EXPECT_FALSE(IsAbsent(other_, "none"));
  EXPECT_THAT(whole_.NamesOf(directory_, 1, now_)->names, UnorderedElementsAre("file"));
  EXPECT_FALSE(whole_.NamesOf(directory_, 0, now_).has_value());
}

TEST_F(WholeDirectoriesTest, AListingLastsUntilItsTimeHasPassed) {
  List(directory_, {});
  now_ = until_;
  EXPECT_FALSE(IsAbsent(directory_, "none"));
  EXPECT_FALSE(IsWhole(directory_));
}

TEST_F(WholeDirectoriesTest, AListingWithoutAPromiseMakesNoDirectoryWhole) {
  List(directory_, {});
  whole_.EndListing(directory_, whole_.BeginListing(directory_), {}, {}, until_);
  EXPECT_FALSE(IsWhole(directory_));
  EXPECT_EQ(whole_.size(), 0u);
}

TEST_F(WholeDirectoriesTest, ANameMayExistFromBeforeItsRequestAndEvenIfThatFails) {
  List(directory_, {});
  const WholeDirectories::Change change = whole_.Begin(directory_, "new");
  EXPECT_FALSE(IsAbsent(directory_, "new"));
  EXPECT_FALSE(IsWhole(directory_));  // to be listed
  whole_.End(directory_, change, "");
  EXPECT_FALSE(IsAbsent(directory_, "new"));
  EXPECT_TRUE(IsAbsent(directory_, "none"));
  EXPECT_TRUE(IsWhole(directory_));
}

TEST_F(WholeDirectoriesTest, ARemovedNameIsAbsent) {
  List(directory_, {"file", "other"});
  Change("", "file");
  EXPECT_TRUE(IsAbsent(directory_, "file"));
  EXPECT_FALSE(IsAbsent(directory_, "other"));
}

TEST_F(WholeDirectoriesTest, RenameMovesAName) {
  List(directory_, {"old"});
  Change("new", "old");
  EXPECT_TRUE(IsAbsent(directory_, "old"));
  EXPECT_THAT(whole_.NamesOf(directory_, SIZE_MAX, now_)->names, UnorderedElementsAre("new"));
}

TEST_F(WholeDirectoriesTest, AnUnknownOutcomeEndsWhatIsKnown) {
  List(directory_, {"file"});
  Change("", "file", Answer::kUnsure);
  EXPECT_FALSE(IsWhole(directory_));
  EXPECT_FALSE(IsAbsent(directory_, "none"));
  EXPECT_EQ(whole_.size(), 0u);
}

TEST_F(WholeDirectoriesTest, ARemovalBesideAnotherChangeEndsWhatIsKnown) {
  List(directory_, {"file"});
  const WholeDirectories::Change create =
      whole_.Begin(directory_, "file");  // its caller was killed
  Change("", "file");
  EXPECT_FALSE(IsAbsent(directory_, "file"));
  EXPECT_FALSE(IsAbsent(directory_, "none"));
  whole_.End(directory_, create, "");

  List(directory_, {"file"});
  const WholeDirectories::Change removal = whole_.Begin(directory_, "");
  Change("file", "");
  whole_.End(directory_, removal, "file");
  EXPECT_FALSE(IsAbsent(directory_, "file"));
}

TEST_F(WholeDirectoriesTest, AChangeDuringAListingIsNotMissed) {
  const uint64_t listing = whole_.BeginListing(directory_);
  Change("new", "");
  whole_.EndListing(directory_, listing, {}, promise_, until_);
  EXPECT_FALSE(IsAbsent(directory_, "new"));
  EXPECT_FALSE(IsWhole(directory_));

  const WholeDirectories::Change change = whole_.Begin(directory_, "new");
  EXPECT_EQ(whole_.BeginListing(directory_), 0u);
  whole_.EndListing(directory_, 0, {}, promise_, until_);
  EXPECT_FALSE(IsAbsent(directory_, "new"));
  whole_.End(directory_, change, "");
  EXPECT_EQ(whole_.size(), 0u);
}

TEST_F(WholeDirectoriesTest, OfTwoListingsTheLaterOneCounts) {
  const uint64_t earlier = whole_.BeginListing(directory_);
  const uint64_t later = whole_.BeginListing(directory_);
  whole_.EndListing(directory_, later, {"file"}, promise_, until_);
  whole_.EndListing(directory_, earlier, {}, promise_, until_);
  EXPECT_FALSE(IsAbsent(directory_, "file"));
  EXPECT_TRUE(IsAbsent(directory_, "none"));
}

TEST_F(WholeDirectoriesTest, AMadeDirectoryIsListedOnce) {
  EXPECT_EQ(whole_.BeginListingOfMade(directory_), 0u);
  whole_.Made(directory_);
  const uint64_t listing = whole_.BeginListingOfMade(directory_);
  EXPECT_NE(listing, 0u);
  EXPECT_EQ(whole_.BeginListingOfMade(directory_), 0u);
  whole_.EndListing(directory_, listing, {}, promise_, until_);
  EXPECT_TRUE(IsAbsent(directory_, "none"));
}

TEST_F(WholeDirectoriesTest, NothingIsKnownOfAForgottenDirectory) {
  List(directory_, {});
  whole_.Made(other_);
  whole_.Forget(directory_);
  whole_.Forget(other_);
  EXPECT_FALSE(IsAbsent(directory_, "none"));
  EXPECT_EQ(whole_.BeginListingOfMade(other_), 0u);
  const uint64_t listing = whole_.BeginListing(directory_);
  whole_.Forget(directory_);
  whole_.EndListing(directory_, listing, {}, promise_, until_);
  EXPECT_FALSE(IsWhole(directory_));
  EXPECT_EQ(whole_.size(), 0u);
}

TEST_F(WholeDirectoriesTest, ADirectoryWithTooManyNamesIsNotWhole) {
  const std::string longest(255, 'n');
  std::vector<std::string> names;
  while (names.size() * WholeDirectories::BytesOf(longest) <= WholeDirectories::kMostBytes) {
    names.push_back(std::to_string(names.size()) + longest.substr(10));
  }
  List(directory_, names);
  ASSERT_TRUE(IsWhole(directory_));
  for (int i = 0; i < 1000; ++i) Change(std::to_string(i) + longest.substr(5), "");
  EXPECT_FALSE(IsWhole(directory_));
  for (int i = 0; i < 1000; ++i) names.push_back(std::to_string(i) + longest.substr(5));
  List(directory_, names);
  EXPECT_FALSE(IsWhole(directory_));
  EXPECT_EQ(whole_.size(), 0u);
}

TEST_F(WholeDirectoriesTest, DirectoriesMakeRoomForOthers) {
  const std::string longest(255, 'n');
  std::vector<std::string> names;
  for (int i = 0; i < 5000; ++i) names.push_back(std::to_string(i) + longest.substr(5));
  constexpr uint8_t kDirectories = 64;
  for (uint8_t i = 0; i < kDirectories; ++i) List(Handle(i), names);
  EXPECT_TRUE(IsWhole(Handle(kDirectories - 1)));
  size_t bytes = 0;
  for (uint8_t i = 0; i < kDirectories; ++i) {
    const auto known = whole_.NamesOf(Handle(i), SIZE_MAX, now_);
    if (!known.has_value()) continue;
    for (const std::string& name : known->names) bytes += WholeDirectories::BytesOf(name);
  }
  EXPECT_LE(bytes, WholeDirectories::kShards * WholeDirectories::kMostBytes);
  EXPECT_LE(whole_.size(), WholeDirectories::kShards);
}

}  // namespace
}  // namespace dafs::fuse
