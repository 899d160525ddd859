#include "fuse/cache/recent_answers.h"

#include <gtest/gtest.h>

namespace dafs::fuse {
namespace {

constexpr uint32_t kThread = 4711;
constexpr absl::Duration kTook = absl::Microseconds(40);

wire::FileAttributes OfSize(uint64_t size) {
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrObjectType | wire::kFattrObjectSize);
  attributes.object_type = wire::ObjectType::kReg;
  attributes.object_size = size;
  return attributes;
}

class RecentAnswersTest : public ::testing::Test {
 protected:
  RecentAnswersTest() {
    wire::FileHandle handle;
    handle.fileid.bytes[0] = 5;
    node_ = inodes_.Remember(handle, OfSize(1), {kRootNode, "file"});
  }
  // A LOOKUP by `thread` whose reply arrives now, after `took`.
  void LookUp(uint32_t thread, uint64_t size, absl::Duration took = kTook) {
    RecentAnswers::Question question = answers_.Ask(thread, now_ - took);
    answers_.Keep(question, node_, OfSize(size), now_);
  }

  const absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  InodeTable inodes_{CacheTimes()};
  RecentAnswers answers_{inodes_};
  uint64_t node_ = 0;
};

TEST_F(RecentAnswersTest, AreValidForOneNodeAndOneThread) {
  EXPECT_EQ(answers_.Find(kThread, node_, now_), nullptr);
  LookUp(kThread, 7);
  EXPECT_EQ(answers_.Find(kThread + 1, node_, now_), nullptr);
  EXPECT_EQ(answers_.Find(kThread, node_ + 1, now_), nullptr);
  const wire::FileAttributes* found = answers_.Find(kThread, node_, now_);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->object_size, 7u);
  answers_.Drop(kThread, node_);  // the attributes were sent
  EXPECT_EQ(answers_.Find(kThread, node_, now_), nullptr);
}

TEST_F(RecentAnswersTest, ExpireAfterRoundTripTimeCappedAt1ms) {
  LookUp(kThread, 7);
  EXPECT_NE(answers_.Find(kThread, node_, now_ + kTook), nullptr);
  EXPECT_EQ(answers_.Find(kThread, node_, now_ + kTook + absl::Microseconds(1)), nullptr);
  LookUp(kThread, 7, absl::Seconds(10));
  const absl::Duration longest = RecentAnswers::kLongest;
  EXPECT_NE(answers_.Find(kThread, node_, now_ + longest), nullptr);
  EXPECT_EQ(answers_.Find(kThread, node_, now_ + longest + absl::Microseconds(1)), nullptr);
}

TEST_F(RecentAnswersTest, AreDroppedIfThisMountChangedTheNodeSinceTheRequest) {
  RecentAnswers::Question question = answers_.Ask(kThread, now_ - kTook);
  inodes_.Touch(node_, now_ - kTook / 2);
  answers_.Keep(question, node_, OfSize(7), now_);
  EXPECT_EQ(answers_.Find(kThread, node_, now_), nullptr) << "touched while it was looked up";

  const absl::Time later = now_ + absl::Seconds(1);
  question = answers_.Ask(kThread, later - kTook);
  answers_.Keep(question, node_, OfSize(7), later);
  EXPECT_NE(answers_.Find(kThread, node_, later), nullptr);
  inodes_.NameRemoved();  // it is not known of which file
  EXPECT_EQ(answers_.Find(kThread, node_, later), nullptr) << "a name was removed";
  question = answers_.Ask(kThread, later - kTook);
  inodes_.DirectoryRemoved();
  answers_.Keep(question, node_, OfSize(7), later);
  EXPECT_EQ(answers_.Find(kThread, node_, later), nullptr) << "a directory was removed";
}

TEST_F(RecentAnswersTest, OpenReusesTheLookupEvenIfItsAttributesWereSentBefore) {
  EXPECT_EQ(answers_.FindToOpen(kThread, node_, now_), nullptr);
  LookUp(kThread, 7);
  EXPECT_NE(answers_.FindToOpen(kThread, node_, now_), nullptr)
      << "no permission check came before";
  answers_.ToldToOpen(kThread, node_, now_ + kTook);  // for the permission check of the open
  EXPECT_EQ(answers_.Find(kThread, node_, now_ + kTook), nullptr);
  const wire::FileAttributes* found = answers_.FindToOpen(kThread, node_, now_ + 2 * kTook);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->object_size, 7u);
  const absl::Duration moment = absl::Microseconds(1);
  EXPECT_EQ(answers_.FindToOpen(kThread, node_, now_ + 2 * kTook + moment), nullptr);
  EXPECT_EQ(answers_.FindToOpen(kThread + 1, node_, now_), nullptr);
  inodes_.Touch(node_, now_);
  EXPECT_EQ(answers_.FindToOpen(kThread, node_, now_ + kTook), nullptr) << "touched since";
  const absl::Time later = now_ + absl::Seconds(1);
  answers_.Keep(answers_.Ask(kThread, later - kTook), node_, OfSize(8), later);
  EXPECT_NE(answers_.FindToOpen(kThread, node_, later), nullptr);
  answers_.Drop(kThread, node_);  // stat(2) has received them
  EXPECT_EQ(answers_.FindToOpen(kThread, node_, later), nullptr);
}

TEST_F(RecentAnswersTest, ALaterThreadReplacesAnEarlierOne) {
  LookUp(kThread, 1);
  LookUp(kThread + 1, 2);
  LookUp(0, 3);  // a caller that the kernel does not name
  EXPECT_EQ(answers_.Find(0, node_, now_), nullptr);
  EXPECT_NE(answers_.Find(kThread, node_, now_), nullptr);
  EXPECT_NE(answers_.Find(kThread + 1, node_, now_), nullptr);
  LookUp(kThread + 1 + 32, 4);  // uses the same entry as kThread + 1
  EXPECT_EQ(answers_.Find(kThread + 1, node_, now_), nullptr);
  EXPECT_NE(answers_.Find(kThread + 1 + 32, node_, now_), nullptr);
}

}  // namespace
}  // namespace dafs::fuse
