// The names of a node that the kernel may still use, and when each was last known to be valid.
#include "fuse/cache/node_names.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace dafs::fuse {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);
absl::Time At(int milliseconds) { return kStart + absl::Milliseconds(milliseconds); }

Place In(std::string name) { return {1, std::move(name)}; }

std::vector<std::string> NamesOf(const Places& places) {
  std::vector<std::string> names;
  for (const Place& place : places) names.push_back(place.name);
  return names;
}
using Names = std::vector<std::string>;

class NodeNamesTest : public ::testing::Test {
 protected:
  // The kernel receives `name` at `ms`, and may use it for a second.
  void Tell(const std::string& name, uint64_t change, int ms = 0) {
    names_.FoundAt(In(name), At(ms));
    names_.Told(In(name), change, At(ms), At(ms + 1000));
  }
  Names NotSeenAt(uint64_t change, int ms) {
    return NamesOf(names_.NotSeenAt(moves_, change, At(ms)));
  }
  Names LikelyOld(absl::Time touched, int ms) {
    return NamesOf(names_.LikelyOld(moves_, touched, At(ms)));
  }
  OwnMoves moves_;
  NodeNames names_;
};

TEST_F(NodeNamesTest, ANameIsRevalidatedIfChangeDiffersAndTheKernelMayUseIt) {
  Tell("a", 7);
  EXPECT_EQ(NotSeenAt(7, 10), Names{});
  EXPECT_EQ(NotSeenAt(8, 10), Names{"a"});
  EXPECT_EQ(NotSeenAt(8, 2000), Names{});
  names_.Confirm(In("a"), 8, At(20));
  EXPECT_EQ(NotSeenAt(8, 30), Names{});
  EXPECT_EQ(NotSeenAt(9, 999), Names{"a"});
  EXPECT_EQ(NotSeenAt(9, 1010), Names{})
      << "a lookup by the mount does not extend the kernel's time";
}

TEST_F(NodeNamesTest, ANameThatTheKernelDidNotReceiveIsNotRevalidated) {
  names_.FoundAt(In("a"), At(0));
  EXPECT_EQ(names_.latest().name, "a");
  EXPECT_EQ(NotSeenAt(8, 10), Names{});
}

TEST_F(NodeNamesTest, EachNameIsTrackedSeparately) {
  Tell("a", 7);
  Tell("b", 8, 10);
  EXPECT_EQ(names_.latest().name, "b");
  EXPECT_EQ(NotSeenAt(8, 20), Names{"a"});
  names_.Lose(In("a"));
  EXPECT_EQ(NotSeenAt(8, 20), Names{});
  EXPECT_TRUE(names_.AnyLost(8, At(20)));
  EXPECT_FALSE(names_.AnyLost(8, At(1002))) << "the kernel no longer uses it";
  Tell("a", 9, 30);
  EXPECT_FALSE(names_.AnyLost(9, At(40))) << "it leads to the node again";
  EXPECT_EQ(NotSeenAt(9, 40), Names{"b"});
}

TEST_F(NodeNamesTest, ANameSeenBeforeAnOwnChangeIsLikelyOld) {
  Tell("a", 7, 10);
  EXPECT_EQ(LikelyOld(At(9), 20), Names{});
  EXPECT_EQ(LikelyOld(At(11), 20), Names{"a"});
  names_.Confirm(In("a"), 8, At(20));
  EXPECT_EQ(LikelyOld(At(11), 30), Names{});
}

TEST_F(NodeNamesTest, NamesFollowOwnRenamesAndRemovals) {
  Tell("a", 7);
  moves_.Moved(In("a"), In("b"), false, At(10));
  EXPECT_EQ(LikelyOld(absl::InfinitePast(), 20), Names{"b"});
  EXPECT_EQ(names_.latest().name, "b");
  names_.Confirm(In("b"), 8, At(30));
  EXPECT_EQ(LikelyOld(absl::InfinitePast(), 40), Names{});
  moves_.Removed(In("b"), At(50));
  EXPECT_EQ(NotSeenAt(9, 60), Names{});
  EXPECT_FALSE(names_.AnyLost(9, At(60)));
}

TEST_F(NodeNamesTest, ANameThatAnOwnRenameReplacedIsDropped) {
  Tell("a", 7);
  Tell("b", 7);
  moves_.Moved(In("c"), In("a"), false, At(10));
  EXPECT_EQ(NotSeenAt(8, 20), Names{"b"});
}

TEST_F(NodeNamesTest, NamesBeyondTheLimitCountAsLostOnceChangeDiffers) {
  for (size_t i = 0; i < NodeNames::kMost; ++i) Tell(std::to_string(i), 7, static_cast<int>(i));
  EXPECT_EQ(NotSeenAt(8, 100).size(), NodeNames::kMost);
  EXPECT_FALSE(names_.AnyLost(8, At(100)));
  Tell("more", 7, 100);
  EXPECT_FALSE(names_.AnyLost(7, At(200)));
  EXPECT_TRUE(names_.AnyLost(8, At(200)));
  EXPECT_EQ(NotSeenAt(8, 200).size(), NodeNames::kMost);
  EXPECT_FALSE(names_.AnyLost(8, At(2000)));
  Tell("still more", 8, 2000);
  EXPECT_EQ(NotSeenAt(9, 2100), Names{"still more"})
      << "names that the kernel no longer uses are dropped";
}

TEST_F(NodeNamesTest, NamesBeyondTheLimitWithMixedChangesCountAsLost) {
  for (size_t i = 0; i < NodeNames::kMost + 2; ++i) Tell(std::to_string(i), 7 + i);
  EXPECT_TRUE(names_.AnyLost(7, At(10)));
  EXPECT_TRUE(names_.AnyLost(8, At(10)));
}

TEST(OwnMovesTest, ANameSeenAfterAMoveDoesNotFollowIt) {
  OwnMoves moves;
  moves.Moved(In("a"), In("b"), false, At(10));
  Place place = In("a");
  EXPECT_EQ(moves.Follow(place, At(11)), OwnMoves::Followed::kStays);
  EXPECT_EQ(place.name, "a");
  EXPECT_EQ(moves.Follow(place, At(9)), OwnMoves::Followed::kMoved);
  EXPECT_EQ(place.name, "b");
  place = {2, "a"};
  EXPECT_EQ(moves.Follow(place, At(9)), OwnMoves::Followed::kStays) << "another directory's";
}

TEST(OwnMovesTest, AnExchangeMovesBoth) {
  OwnMoves moves;
  moves.Moved(In("a"), {2, "b"}, true, At(10));
  Place a = In("a"), b = {2, "b"};
  EXPECT_EQ(moves.Follow(a, At(0)), OwnMoves::Followed::kMoved);
  EXPECT_EQ(moves.Follow(b, At(0)), OwnMoves::Followed::kMoved);
  EXPECT_EQ(a, (Place{2, "b"}));
  EXPECT_EQ(b, In("a"));
}

TEST(OwnMovesTest, MovesAreFollowedInOrder) {
  OwnMoves moves;
  moves.Moved(In("a"), In("b"), false, At(10));
  moves.Moved(In("x"), In("y"), false, At(11));
  moves.Moved(In("b"), In("c"), false, At(12));
  Place place = In("a");
  EXPECT_EQ(moves.Follow(place, At(0)), OwnMoves::Followed::kMoved);
  EXPECT_EQ(place.name, "c");
  moves.Moved(In("z"), In("c"), false, At(13));
  EXPECT_EQ(moves.Follow(place, At(13)), OwnMoves::Followed::kGone);
  place = In("b");
  EXPECT_EQ(moves.Follow(place, At(0)), OwnMoves::Followed::kGone) << "a replaced it";
}

TEST(OwnMovesTest, OnlyTheLatestMovesAreKept) {
  OwnMoves moves;
  moves.Moved(In("a"), In("b"), false, At(0));
  for (size_t i = 0; i < OwnMoves::kMost; ++i) {
    moves.Removed({5, std::to_string(i)}, At(1));
  }
  Place place = In("a");
  EXPECT_EQ(moves.Follow(place, At(0)), OwnMoves::Followed::kStays);
  place = {5, "0"};
  EXPECT_EQ(moves.Follow(place, At(0)), OwnMoves::Followed::kGone);
}

}  // namespace
}  // namespace dafs::fuse
