#include "fuse/mount/mount_retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fuse/mount/errors/mount_error.h"
#include "fuse/options/command_line.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

Options Given(const std::string& list) {
  const std::vector<std::string> words = {"server:/data", "/mnt", "-o", list};
  return *ParseOptions(words, {});
}

Outcome Refused() { return ConnectError(Given("rw"), absl::UnavailableError("refused")); }

TEST(MountRetry, PausesGrowToTenSecondsAndTheLastAttemptIsAtTheDeadline) {
  absl::Time now = absl::FromUnixSeconds(1000);
  const absl::Time end = now + absl::Minutes(1);
  MountRetry retry(Given("retry=1"), now);
  std::vector<int64_t> pauses;
  while (auto pause = retry.NextPause(Refused(), now)) {
    pauses.push_back(absl::ToInt64Seconds(*pause));
    now += *pause;
  }
  EXPECT_THAT(pauses, testing::ElementsAre(1, 2, 4, 8, 10, 10, 10, 10, 5));
  EXPECT_EQ(now, end);
}

TEST(MountRetry, TriesOnceWithRetryZero) {
  const absl::Time now = absl::FromUnixSeconds(1000);
  EXPECT_EQ(MountRetry(Given("retry=0"), now).NextPause(Refused(), now), std::nullopt);
  EXPECT_EQ(MountRetry(Given("bg,retry=0"), now).NextPause(Refused(), now), std::nullopt);
}

TEST(MountRetry, RetriesOnlyIfTheServerWasNotReached) {
  const Options options = Given("rw");
  const absl::Time now = absl::FromUnixSeconds(1000);
  auto repeats = [&](const Outcome& outcome) {
    return MountRetry(options, now).NextPause(outcome, now).has_value();
  };
  EXPECT_TRUE(repeats(ConnectError(options, absl::UnavailableError("refused"))));
  EXPECT_TRUE(repeats(ConnectError(options, absl::DeadlineExceededError("no answer"))));
  EXPECT_TRUE(repeats(HostError(options.source.host, absl::UnavailableError("no name server"))));
  EXPECT_FALSE(repeats(HostError(options.source.host, absl::NotFoundError("unknown"))));
  EXPECT_FALSE(repeats(ConnectError(options, absl::UnauthenticatedError("no"))));
  EXPECT_FALSE(repeats(ConnectError(options, absl::FailedPreconditionError("version"))));
  for (auto status : {wire::DafsStatus::kNoEnt, wire::DafsStatus::kAcces}) {
    EXPECT_FALSE(repeats(ExportError(options, wire::StatusFromDafs(status, "mount"))));
  }
}

TEST(MountRetry, MessagesNameTheRetryTime) {
  const absl::Time now = absl::FromUnixSeconds(1000);
  EXPECT_THAT(MountRetry(Given("retry=1"), now).Announce(Refused()),
              testing::EndsWith("; retrying for 1 minute (retry=1)"));
  EXPECT_THAT(MountRetry(Given("bg"), now).Announce(Refused()),
              testing::EndsWith("; retrying in the background for 10000 minutes (retry=10000)"));
  const MountRetry retry(Given("rw"), now);
  EXPECT_THAT(retry.Last(Refused(), 9).reason,
              testing::EndsWith("; gave up after 2 minutes (retry=2)"));
  EXPECT_EQ(retry.Last(Refused(), 1).reason, Refused().reason);
}

}  // namespace
}  // namespace dafs::fuse
