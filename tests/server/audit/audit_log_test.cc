#include "server/audit/audit_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace dafs::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

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

TEST_F(AuditLogTest, FileWithAnotherNameIsRefused) {
  std::ofstream(base_ + "/exported") << "";
  std::filesystem::create_hard_link(base_ + "/exported", options_.destination);
  EXPECT_THAT(Refusal(), HasSubstr("another hard link"));
}

// Takes datagrams as syslogd does, in a mount namespace of its own.
std::vector<std::string> WhatSyslogGets(const AuditOptions& options,
                                        const std::vector<std::string>& lines) {
  int results[2];
  if (pipe(results) != 0) return {"no pipe"};
  const pid_t child = fork();
  if (child == 0) {
    const auto fail = [&](const char* what) {
      dprintf(results[1], "%s: %s\n", what, strerror(errno));
      _exit(1);
    };
    if (unshare(CLONE_NEWNS) != 0) fail("unshare");
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) fail("private");
    if (mount("none", "/dev", "tmpfs", 0, nullptr) != 0) fail("tmpfs");
    const int socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    std::strcpy(name.sun_path, "/dev/log");
    if (bind(socket_fd, reinterpret_cast<sockaddr*>(&name), sizeof name) != 0) fail("bind");
    const auto log = AuditLog::Open(options);
    for (const std::string& line : lines) (*log)->Write(line);
    (*log)->Reopen();  // has no effect
    (*log)->Stop(absl::InfiniteFuture());
    std::vector<char> got(size_t{64} << 10);
    ssize_t size = 0;
    while ((size = recv(socket_fd, got.data(), got.size(), MSG_DONTWAIT)) > 0) {
      dprintf(results[1], "%.*s\n", static_cast<int>(size), got.data());
    }
    _exit(0);
  }
  close(results[1]);
  std::string text;
  char part[4096];
  for (ssize_t n = 0; (n = read(results[0], part, sizeof part)) > 0;) {
    text.append(part, static_cast<size_t>(n));
  }
  close(results[0]);
  waitpid(child, nullptr, 0);
  std::vector<std::string> got = absl::StrSplit(text, '\n', absl::SkipEmpty());
  return got;
}

TEST_F(AuditLogTest, SyslogGetsOneMessageForEachRecord) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root: replaces /dev/log in a mount namespace";
  options_.destination = std::string(kAuditToSyslog);
  const std::string large = std::string(4000, 'x');
  const std::vector<std::string> got =
      WhatSyslogGets(options_, {"{\"path\":\"100%s%n\"}\n", large + "\n"});
  ASSERT_EQ(got.size(), 2u) << absl::StrJoin(got, "\n");
  EXPECT_THAT(got[0], StartsWith("<86>"));                          // authpriv.info
  EXPECT_THAT(got[0], HasSubstr("audit: {\"path\":\"100%s%n\"}"));  // it is no format
  EXPECT_THAT(got[1], HasSubstr("audit: " + large));
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
