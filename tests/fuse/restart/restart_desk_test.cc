#include "fuse/restart/restart_desk.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

namespace dafs::fuse {
namespace {

std::string TextOf(RestartDesk& desk, std::string_view request) {
  const std::optional<absl::StatusOr<std::string>> answer = desk.Answer(request, true);
  if (!answer.has_value()) return "unknown";
  return answer->ok() ? **answer : std::string(answer->status().message());
}

TEST(RestartDeskTest, PassesARequestOnAndReportsItsResult) {
  RestartDesk desk;
  desk.Open(true, 4);
  EXPECT_FALSE(desk.Take().has_value());
  EXPECT_EQ(TextOf(desk, "restarted"), "4\n");
  EXPECT_EQ(TextOf(desk, "restart /usr/sbin/mount.dafs"), "asked\n");
  EXPECT_EQ(TextOf(desk, "restart"), "a restart is under way");
  EXPECT_EQ(desk.Take(), "/usr/sbin/mount.dafs");
  EXPECT_FALSE(desk.Take().has_value());
  desk.Refused("the server does not answer");
  EXPECT_EQ(TextOf(desk, "restarted"), "4\nthe server does not answer");
  EXPECT_EQ(TextOf(desk, "restart"), "asked\n");
  EXPECT_EQ(TextOf(desk, "restarted"), "4\n");
  EXPECT_EQ(desk.Take(), "");
  EXPECT_EQ(TextOf(desk, "status"), "unknown");
}

TEST(RestartDeskTest, RefusesWithoutAGuardianAndToOthers) {
  RestartDesk desk;
  EXPECT_NE(TextOf(desk, "restart").find("no guardian"), std::string::npos);
  desk.Open(true, 0);
  const auto answer = desk.Answer("restart", false);
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(absl::IsPermissionDenied(answer->status())) << answer->status();
  EXPECT_FALSE(desk.Take().has_value());
  EXPECT_TRUE(desk.Answer("restarted", false)->ok());
}

}  // namespace
}  // namespace dafs::fuse
