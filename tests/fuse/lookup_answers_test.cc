#include "fuse/lookup_answers.h"

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

class LookupAnswersTest : public ::testing::Test {
 protected:
  LookupAnswersTest() {
    wire::FileHandle handle;
    handle.fileid.bytes[0] = 5;
    node_ = inodes_.Remember(handle, OfSize(1), {kRootNode, "file"});
  }
  // A LOOKUP by `thread` that took `took`, answered now.
  void LookUp(uint32_t thread, uint64_t size, absl::Duration took = kTook) {
    LookupAnswers::Question question = answers_.Ask(thread, now_ - took);
    answers_.Keep(question, node_, OfSize(size), now_);
  }

  const absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  InodeTable inodes_{CacheTimes()};
  LookupAnswers answers_{inodes_};
  uint64_t node_ = 0;
};

TEST_F(LookupAnswersTest, AnswerTheNextQuestionOfTheSameThreadOnce) {
  EXPECT_EQ(answers_.Take(kThread, node_, now_), nullptr);
  LookUp(kThread, 7);
  EXPECT_EQ(answers_.Take(kThread + 16, node_, now_), nullptr);
  EXPECT_EQ(answers_.Take(kThread, node_ + 16, now_), nullptr);
  const wire::FileAttributes* found = answers_.Take(kThread, node_, now_);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->object_size, 7u);
  EXPECT_EQ(answers_.Take(kThread, node_, now_), nullptr);
}

TEST_F(LookupAnswersTest, AreGoodForAsLongAsLookupTookAndAMillisecondAtMost) {
  LookUp(kThread, 7);
  EXPECT_NE(answers_.Take(kThread, node_, now_ + kTook), nullptr);
  LookUp(kThread, 7);
  EXPECT_EQ(answers_.Take(kThread, node_, now_ + kTook + absl::Microseconds(1)), nullptr);
  LookUp(kThread, 7, absl::Seconds(10));
  EXPECT_NE(answers_.Take(kThread, node_, now_ + LookupAnswers::kLongest), nullptr);
  LookUp(kThread, 7, absl::Seconds(10));
  EXPECT_EQ(answers_.Take(kThread, node_, now_ + LookupAnswers::kLongest + absl::Microseconds(1)),
            nullptr);
}

TEST_F(LookupAnswersTest, EndWithWhatWeDoToTheNodeSinceTheServerWasAsked) {
  LookupAnswers::Question question = answers_.Ask(kThread, now_ - kTook);
  inodes_.Touch(node_, now_ - kTook / 2);
  answers_.Keep(question, node_, OfSize(7), now_);
  EXPECT_EQ(answers_.Take(kThread, node_, now_), nullptr) << "touched while it was looked up";

  // Whose link count is another, nobody here knows.
  const absl::Time later = now_ + absl::Seconds(1);
  question = answers_.Ask(kThread, later - kTook);
  answers_.Keep(question, node_, OfSize(7), later);
  inodes_.NameRemoved();
  EXPECT_EQ(answers_.Take(kThread, node_, later), nullptr) << "a name was removed";
  question = answers_.Ask(kThread, later - kTook);
  inodes_.DirectoryRemoved();
  answers_.Keep(question, node_, OfSize(7), later);
  EXPECT_EQ(answers_.Take(kThread, node_, later), nullptr) << "a directory was removed";
}

TEST_F(LookupAnswersTest, AreOfAsManyThreadsAsThereIsRoomFor) {
  LookUp(kThread, 1);
  LookUp(kThread + 1, 2);
  LookUp(0, 3);  // a caller that the kernel does not name
  EXPECT_EQ(answers_.Take(0, node_, now_), nullptr);
  ASSERT_NE(answers_.Take(kThread, node_, now_), nullptr);
  LookUp(kThread + 1 + 16, 4);  // in the other's place
  EXPECT_EQ(answers_.Take(kThread + 1, node_, now_), nullptr);
  EXPECT_NE(answers_.Take(kThread + 1 + 16, node_, now_), nullptr);
}

}  // namespace
}  // namespace dafs::fuse
