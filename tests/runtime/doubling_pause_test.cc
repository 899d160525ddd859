#include "runtime/doubling_pause.h"

#include <gtest/gtest.h>

namespace dafs {
namespace {

TEST(DoublingPause, DoublesUpToTheLimitAndBeginsAgain) {
  DoublingPause pause(absl::Milliseconds(10), absl::Milliseconds(35));
  EXPECT_EQ(pause.next(), absl::Milliseconds(10));
  EXPECT_EQ(pause.next(), absl::Milliseconds(10)) << "it grows by Grow alone";
  pause.Grow();
  EXPECT_EQ(pause.next(), absl::Milliseconds(20));
  pause.Grow();
  EXPECT_EQ(pause.next(), absl::Milliseconds(35));
  pause.Grow();
  EXPECT_EQ(pause.next(), absl::Milliseconds(35));
  pause.Reset();
  EXPECT_EQ(pause.next(), absl::Milliseconds(10));
}

}  // namespace
}  // namespace dafs
