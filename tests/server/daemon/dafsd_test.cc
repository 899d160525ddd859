// The program itself: exit status, daemon, pid file, one server per state directory, clean stop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/loop.h"
#include "tests/server/daemon/dafsd_process.h"

namespace dafs::server {
namespace {

class DafsdTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: opens file handles and takes other identities";
    char name[] = "/tmp/dafsd-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    base_ = name;
    mkdir((base_ + "/a").c_str(), 0777);
    mkdir((base_ + "/state").c_str(), 0700);
  }
  void TearDown() override {
    if (base_.empty()) return;
    if (const pid_t pid = Pid(); pid > 0) kill(pid, SIGKILL);
    std::filesystem::remove_all(base_);
  }

  // Runs dafsd with `arguments`. Returns its exit status; said_ receives its output.
  int Run(const std::string& arguments) {
    const std::string out = base_ + "/out";
    const std::string command = std::string(DAFSD) + " " + arguments + " >" + out + " 2>&1";
    const int status = std::system(command.c_str());
    std::ifstream in(out);
    said_.assign(std::istreambuf_iterator<char>(in), {});
    return WEXITSTATUS(status);
  }
  std::string Options() const {
    return "--export /a=" + base_ + "/a --listen tcp:127.0.0.1:0 --admin-socket none --state-dir " +
           base_ + "/state";
  }
  pid_t Pid() const {
    std::ifstream in(base_ + "/state/dafsd.pid");
    pid_t pid = 0;
    in >> pid;
    return pid;
  }

  std::string base_;
  std::string said_;
};

TEST_F(DafsdTest, DaemonisesServesAndStopsCleanly) {
  ASSERT_EQ(Run(Options()), 0) << said_;
  const pid_t pid = Pid();
  ASSERT_GT(pid, 0);
  EXPECT_EQ(kill(pid, 0), 0);
  // A second server on the same state directory reports that and fails.
  EXPECT_EQ(Run(Options()), 1);
  EXPECT_THAT(said_, testing::HasSubstr("in use by another dafsd"));
  EXPECT_EQ(kill(pid, SIGHUP), 0);  // ignored
  EXPECT_EQ(kill(pid, SIGTERM), 0);
  const absl::Time deadline = Loop::Now() + absl::Seconds(60);
  // Not kill(pid, 0): the process that inherited the daemon may leave it a zombie.
  while (Pid() != 0 && Loop::Now() < deadline) sched_yield();
  EXPECT_EQ(Pid(), 0);  // removing the pid file is the last step of a stop
  EXPECT_EQ(Run(Options()), 0) << said_;
}

TEST_F(DafsdTest, ReportsToTheServiceManagerThatItServes) {
  for (const bool abstract : {false, true}) {
    const std::string name = base_ + (abstract ? "/abstract" : "/notify");
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    ASSERT_LT(name.size() + 1, sizeof(address.sun_path));
    std::memcpy(address.sun_path + (abstract ? 1 : 0), name.c_str(), name.size());
    const size_t size = offsetof(sockaddr_un, sun_path) + name.size() + (abstract ? 1 : 0);
    const int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(manager, reinterpret_cast<sockaddr*>(&address), static_cast<socklen_t>(size)),
              0);
    setenv("NOTIFY_SOCKET", ((abstract ? "@" : "") + name).c_str(), 1);
    char message[64] = "";
    {
      DafsdProcess dafsd(DAFSD, {"--export", "/a=" + base_ + "/a", "--listen", "tcp:127.0.0.1:0",
                                 "--state-dir", base_ + "/state"});
      unsetenv("NOTIFY_SOCKET");
      ASSERT_NE(dafsd.port(), 0) << dafsd.log();
      pollfd wait = {.fd = manager, .events = POLLIN, .revents = 0};
      EXPECT_EQ(poll(&wait, 1, 60'000), 1);
      EXPECT_GT(recv(manager, message, sizeof(message) - 1, 0), 0);
    }
    EXPECT_STREQ(message, "READY=1");
    close(manager);
  }
}

TEST_F(DafsdTest, ReportsInOneLineWhyItDoesNotStart) {
  EXPECT_EQ(Run("--state-dir " + base_ + "/state"), 2);
  EXPECT_THAT(said_, testing::StartsWith("dafsd: nothing to serve"));
  EXPECT_EQ(Run("--export /a=" + base_ + "/missing --state-dir " + base_ + "/state"), 1);
  EXPECT_THAT(said_, testing::HasSubstr("/missing"));
  EXPECT_EQ(Run(Options() + " --listen tcp:192.0.2.1:1"), 1);
  EXPECT_THAT(said_, testing::HasSubstr("192.0.2.1:1"));
  EXPECT_EQ(Run("--help"), 0);
  std::filesystem::rename(base_ + "/state", base_ + "/a/state");
  EXPECT_EQ(Run(Options()), 1);
  EXPECT_THAT(said_, testing::HasSubstr("mkdir -m 700 " + base_ + "/state"));
  EXPECT_FALSE(std::filesystem::exists(base_ + "/state"));
  std::filesystem::create_directory_symlink(base_ + "/a/state", base_ + "/state");
  EXPECT_EQ(Run(Options()), 1);
  EXPECT_THAT(said_, testing::HasSubstr("clients of export /a can reach it"));
}

}  // namespace
}  // namespace dafs::server
