#include "server/audit/audit_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace dafs::server {
namespace {

using ::testing::HasSubstr;

class AuditLogTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string base = "/tmp/dafs-audit-XXXXXX";
    base_ = mkdtemp(base.data());
    options_.destination = base_ + "/audit.json";
  }
  void TearDown() override { std::filesystem::remove_all(base_); }

  static std::vector<std::string> Lines(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  std::string Refusal() {
    const auto log = AuditLog::Open(options_);
    return log.ok() ? "" : std::string(log.status().message());
  }

  std::string base_;
  AuditOptions options_;
};

TEST_F(AuditLogTest, RecordsAreWrittenInOrder) {
  auto log = AuditLog::Open(options_);
  ASSERT_TRUE(log.ok()) << log.status();
  for (int i = 0; i < 1000; ++i) (*log)->Write(absl::StrCat(i, "\n"));
  EXPECT_TRUE((*log)->Stop(absl::InfiniteFuture()));
  const std::vector<std::string> lines = Lines(options_.destination);
  ASSERT_EQ(lines.size(), 1000u);
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i], std::to_string(i));
  struct stat info;
  ASSERT_EQ(stat(options_.destination.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(AuditLogTest, ReopenedFileGetsTheNextRecords) {
  auto log = AuditLog::Open(options_);
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Write("before\n");
  std::filesystem::rename(options_.destination, base_ + "/old");
  (*log)->Reopen();
  (*log)->Write("after\n");
  (*log)->Stop(absl::InfiniteFuture());
  EXPECT_EQ(Lines(base_ + "/old"), std::vector<std::string>{"before"});
  EXPECT_EQ(Lines(options_.destination), std::vector<std::string>{"after"});
}

TEST_F(AuditLogTest, RecordsWithoutRoomAreDroppedAndCounted) {
  options_.queue_bytes = 100;
  auto log = AuditLog::Open(options_);
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Write(std::string(200, 'x') + "\n");
  (*log)->Write("small\n");
  (*log)->Stop(absl::InfiniteFuture());
  EXPECT_EQ((*log)->counts().records, 2u);
  EXPECT_EQ((*log)->counts().dropped, 1u);
  const std::vector<std::string> lines = Lines(options_.destination);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "small");
  const auto said = nlohmann::json::parse(lines[1]);
  EXPECT_EQ(said["op"], "AUDIT_DROPPED");
  EXPECT_EQ(said["count"], 1);
}

// As on a full disk: the record that does not fit is lost, and the next one begins a line.
TEST_F(AuditLogTest, RecordsThatCannotBeWrittenAreCounted) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  auto log = AuditLog::Open(options_);
  ASSERT_TRUE(log.ok()) << log.status();
  const rlimit small = {.rlim_cur = 10, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  (*log)->Write(std::string(20, 'x') + "\n");
  while ((*log)->counts().dropped == 0) usleep(1000);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  (*log)->Write("next\n");
  (*log)->Stop(absl::InfiniteFuture());
  const std::vector<std::string> lines = Lines(options_.destination);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0], std::string(10, 'x'));
  EXPECT_EQ(lines.back(), "next");
}

TEST_F(AuditLogTest, UnsafeFilesAreRefused) {
  ASSERT_EQ(mkfifo(options_.destination.c_str(), 0600), 0);
  EXPECT_NE(Refusal(), "");
  unlink(options_.destination.c_str());
  ASSERT_EQ(symlink("/etc/passwd", options_.destination.c_str()), 0);
  EXPECT_NE(Refusal(), "");
  unlink(options_.destination.c_str());
  close(open(options_.destination.c_str(), O_CREAT | O_WRONLY, 0600));
  chmod(options_.destination.c_str(), 0666);
  EXPECT_THAT(Refusal(), HasSubstr("chmod 600"));
  options_.destination = base_ + "/none/audit.json";
  EXPECT_THAT(Refusal(), HasSubstr("directory that exists"));
}

}  // namespace
}  // namespace dafs::server
