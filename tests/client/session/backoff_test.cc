// The pauses between attempts to connect.
#include "client/session/backoff.h"

#include <set>

#include "gtest/gtest.h"

namespace dafs::client {
namespace {

TEST(BackoffTest, PausesDoubleUpToTheLimit) {
  Backoff backoff(absl::Milliseconds(100), absl::Milliseconds(300));
  for (const int limit : {100, 200, 300, 300, 300}) {
    const absl::Duration pause = backoff.Next();
    EXPECT_GE(pause, absl::Milliseconds(limit) / 2);
    EXPECT_LE(pause, absl::Milliseconds(limit));
  }
  backoff.Reset();
  EXPECT_LE(backoff.Next(), absl::Milliseconds(100));
}

TEST(BackoffTest, PausesDiffer) {
  std::set<absl::Duration> pauses;
  for (int i = 0; i < 20; ++i) {
    pauses.insert(Backoff(absl::Seconds(1), absl::Seconds(1)).Next());
  }
  EXPECT_GT(pauses.size(), 1u);
}

}  // namespace
}  // namespace dafs::client
