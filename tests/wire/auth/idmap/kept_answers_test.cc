#include "wire/auth/idmap/kept_answers.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace dafs::auth {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();
constexpr absl::Duration kAfterDue = absl::Seconds(100);

class KeptAnswersTest : public testing::Test {
 protected:
  // The answer for `key`, or -1.
  int At(const std::string& key, absl::Duration time) const {
    const auto found = kept_.Find(key, kStart + time);
    return found.value == nullptr ? -1 : *found.value;
  }
  bool IsDue(const std::string& key, absl::Duration time) const {
    return kept_.Find(key, kStart + time).is_due;
  }
  KeptAnswers<std::string, int> kept_{100, kAfterDue};
};

TEST_F(KeptAnswersTest, AnswerIsDueAtItsTimeAndEndsLater) {
  kept_.Keep("a", 1, kStart, absl::Seconds(60));
  kept_.Keep("b", 2, kStart, absl::Seconds(5));
  EXPECT_EQ(At("a", absl::Seconds(59)), 1);
  EXPECT_FALSE(IsDue("a", absl::Seconds(59)));
  EXPECT_EQ(At("b", absl::Seconds(5)), 2);
  EXPECT_TRUE(IsDue("b", absl::Seconds(5)));
  EXPECT_EQ(At("b", absl::Seconds(104)), 2);
  EXPECT_EQ(At("b", absl::Seconds(105)), -1);
  EXPECT_EQ(At("c", absl::ZeroDuration()), -1);
}

TEST_F(KeptAnswersTest, EndedAnswersAreRemovedByTheNext) {
  kept_.Keep("a", 1, kStart, absl::Seconds(1));
  kept_.Keep("b", 2, kStart, absl::Seconds(2));
  kept_.Keep("c", 3, kStart + absl::Seconds(2), absl::Seconds(1));
  EXPECT_EQ(kept_.size(), 3u);
  kept_.Keep("c", 3, kStart + absl::Seconds(2) + kAfterDue, absl::Seconds(1));
  EXPECT_EQ(kept_.size(), 1u);
}

TEST_F(KeptAnswersTest, NewAnswerReplacesTheOldOneAndItsEnd) {
  kept_.Keep("a", 1, kStart, absl::Seconds(60));
  kept_.Keep("a", 2, kStart, absl::Seconds(5));
  EXPECT_EQ(kept_.size(), 1u);
  EXPECT_EQ(At("a", absl::ZeroDuration()), 2);
  EXPECT_TRUE(IsDue("a", absl::Seconds(5)));
}

TEST_F(KeptAnswersTest, AnswersThatAreDueFirstAreForgottenBeyondTheBound) {
  for (int i = 0; i < 100; ++i) {
    kept_.Keep(absl::StrCat("lasting", i), i, kStart, absl::Seconds(600));
  }
  for (int i = 0; i < 50; ++i) {
    const std::string brief = absl::StrCat("brief", i);
    kept_.Keep(brief, i, kStart, absl::Seconds(60));
    EXPECT_EQ(kept_.size(), 100u);
    EXPECT_EQ(At(brief, absl::ZeroDuration()), i) << "the new one is kept";
  }
  int lasting = 0;
  for (int i = 0; i < 100; ++i) {
    lasting += At(absl::StrCat("lasting", i), absl::ZeroDuration()) == i ? 1 : 0;
  }
  EXPECT_EQ(lasting, 99);
}

TEST_F(KeptAnswersTest, ClearForgetsAll) {
  kept_.Keep("a", 1, kStart, absl::Seconds(60));
  kept_.Clear();
  EXPECT_EQ(kept_.size(), 0u);
  EXPECT_EQ(At("a", absl::ZeroDuration()), -1);
  kept_.Keep("a", 2, kStart, absl::Seconds(60));
  EXPECT_EQ(At("a", absl::ZeroDuration()), 2);
}

}  // namespace
}  // namespace dafs::auth
