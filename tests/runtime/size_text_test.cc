#include "runtime/size_text.h"

#include <gtest/gtest.h>

namespace dafs {
namespace {

TEST(SizeText, BytesHaveTwoDigitsOrMore) {
  EXPECT_EQ(BytesText(512), "512");
  EXPECT_EQ(BytesText(4096), "4.0K");
  EXPECT_EQ(BytesText(uint64_t{12} << 20), "12M");
}

TEST(SizeText, TimesAreCutToMilliseconds) {
  EXPECT_EQ(MillisecondsText(absl::Microseconds(900)), "0");
  EXPECT_EQ(MillisecondsText(absl::Microseconds(12'900)), "12ms");
  EXPECT_EQ(MillisecondsText(absl::Milliseconds(6100)), "6.1s");
  EXPECT_EQ(MillisecondsText(absl::Milliseconds(62'500)), "1m2.5s");
}

}  // namespace
}  // namespace dafs
