// The report of a worker without a session.
#include "client/session/session_history.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dafs::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(SessionHistoryTest, ReportsTheLatestReason) {
  SessionHistory history("files1");
  absl::Status none = history.NoSession();
  EXPECT_TRUE(absl::IsDeadlineExceeded(none));
  EXPECT_THAT(std::string(none.message()), StartsWith("files1: no session for "));
  EXPECT_THAT(std::string(none.message()), HasSubstr("never connected"));
  history.Failed(absl::UnavailableError("refused"));
  EXPECT_THAT(std::string(history.NoSession().message()), HasSubstr("refused"));
  WorkerReport report;
  history.Fill(nullptr, report);
  EXPECT_EQ(report.name, "files1");
  EXPECT_EQ(report.not_connected, "refused");
  EXPECT_EQ(report.connects, 0u);
}

TEST(SessionHistoryTest, CountsSessions) {
  SessionHistory history("files1");
  EXPECT_EQ(history.began_at(), absl::Time());
  history.Began();
  history.Began();
  WorkerReport report;
  history.Fill(nullptr, report);
  EXPECT_EQ(report.connects, 2u);
  EXPECT_GT(history.began_at(), absl::Time());
}

}  // namespace
}  // namespace dafs::client
