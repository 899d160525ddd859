#include "wire/auth/idmap/kept_answers.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace dafs::auth {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();

TEST(KeptAnswersTest, AnswerEndsAtItsTime) {
  KeptAnswers<std::string, int> kept(10);
  kept.Keep("a", 1, kStart, absl::Seconds(60));
  kept.Keep("b", 2, kStart, absl::Seconds(5));
  ASSERT_NE(kept.Find("a", kStart), nullptr);
  EXPECT_EQ(*kept.Find("a", kStart + absl::Seconds(59)), 1);
  EXPECT_EQ(*kept.Find("b", kStart + absl::Seconds(4)), 2);
  EXPECT_EQ(kept.Find("b", kStart + absl::Seconds(5)), nullptr);
  EXPECT_EQ(kept.Find("a", kStart + absl::Seconds(60)), nullptr);
  EXPECT_EQ(kept.Find("c", kStart), nullptr);
}

TEST(KeptAnswersTest, EndedAnswersAreRemovedByTheNext) {
  KeptAnswers<std::string, int> kept(10);
  kept.Keep("a", 1, kStart, absl::Seconds(1));
  kept.Keep("b", 2, kStart, absl::Seconds(2));
  kept.Keep("c", 3, kStart + absl::Seconds(2), absl::Seconds(1));
  EXPECT_EQ(kept.size(), 1u);
}

TEST(KeptAnswersTest, NewAnswerReplacesTheOldOneAndItsEnd) {
  KeptAnswers<std::string, int> kept(10);
  kept.Keep("a", 1, kStart, absl::Seconds(60));
  kept.Keep("a", 2, kStart, absl::Seconds(5));
  EXPECT_EQ(kept.size(), 1u);
  EXPECT_EQ(*kept.Find("a", kStart), 2);
  EXPECT_EQ(kept.Find("a", kStart + absl::Seconds(5)), nullptr);
}

TEST(KeptAnswersTest, AnswersThatEndFirstAreForgottenBeyondTheBound) {
  KeptAnswers<std::string, int> kept(100);
  for (int i = 0; i < 100; ++i) {
    kept.Keep(absl::StrCat("lasting", i), i, kStart, absl::Seconds(600));
  }
  for (int i = 0; i < 50; ++i) {
    kept.Keep(absl::StrCat("brief", i), i, kStart, absl::Seconds(60));
    EXPECT_EQ(kept.size(), 100u);
    EXPECT_NE(kept.Find(absl::StrCat("brief", i), kStart), nullptr) << "the new one is kept";
  }
  int lasting = 0;
  for (int i = 0; i < 100; ++i) {
    lasting += kept.Find(absl::StrCat("lasting", i), kStart) != nullptr ? 1 : 0;
  }
  EXPECT_EQ(lasting, 99);
}

TEST(KeptAnswersTest, ClearForgetsAll) {
  KeptAnswers<std::string, int> kept(10);
  kept.Keep("a", 1, kStart, absl::Seconds(60));
  kept.Clear();
  EXPECT_EQ(kept.size(), 0u);
  EXPECT_EQ(kept.Find("a", kStart), nullptr);
  kept.Keep("a", 2, kStart, absl::Seconds(60));
  EXPECT_EQ(*kept.Find("a", kStart), 2);
}

}  // namespace
}  // namespace dafs::auth
