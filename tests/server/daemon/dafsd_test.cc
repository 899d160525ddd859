// The program itself: exit status, daemon, pid file, one server per state directory, clean stop.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/loop/loop.h"
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
  EXPECT_EQ(kill(pid, SIGHUP), 0);  // reads its exports again
  EXPECT_EQ(kill(pid, SIGTERM), 0);
  const absl::Time deadline = Loop::Now() + absl::Seconds(60);
  // Not kill(pid, 0): the process that inherited the daemon may leave it a zombie.
  while (Pid() != 0 && Loop::Now() < deadline) sched_yield();
  EXPECT_EQ(Pid(), 0);  // removing the pid file is the last step of a stop
  EXPECT_EQ(Run(Options()), 0) << said_;
}

// Starts dafsd in the foreground with its log in `log`. Returns its pid.
pid_t StartLogged(const std::string& log, const std::string& arguments) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const std::string command =
      "exec " + std::string(DAFSD) + " --foreground " + arguments + " 2>" + log;
  execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  _exit(127);
}

bool AwaitLine(const std::string& log, const std::string& what) {
  const absl::Time deadline = Loop::Now() + absl::Seconds(60);
  while (Loop::Now() < deadline) {
    std::ifstream in(log);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    if (text.find(what) != std::string::npos) return true;
    sched_yield();
  }
  return false;
}

TEST_F(DafsdTest, AStandbyTakesOverWhenTheOtherServerEndsAndNotWhileThatOneIsStopped) {
  const pid_t active = StartLogged(base_ + "/active", Options());
  ASSERT_TRUE(AwaitLine(base_ + "/active", "serving"));
  const pid_t standby =
      StartLogged(base_ + "/standby", Options() + " --standby --export /b=" + base_ + "/a");
  EXPECT_TRUE(AwaitLine(base_ + "/standby", "takes over when that one ends"));
  EXPECT_EQ(Pid(), active);  // the standby has left its pid file alone
  kill(active, SIGSTOP);
  waitpid(active, nullptr, WUNTRACED);
  EXPECT_EQ(Run(Options()), 1);  // the lock is that of the stopped one
  EXPECT_THAT(said_, testing::HasSubstr("in use by another dafsd"));
  kill(active, SIGCONT);
  kill(active, SIGTERM);
  waitpid(active, nullptr, 0);
  EXPECT_TRUE(AwaitLine(base_ + "/standby", "serving 2 exports"));
  EXPECT_EQ(Pid(), standby);  // the other one has not removed the new file when it ended
  const pid_t next = StartLogged(base_ + "/next", Options() + " --standby");
  EXPECT_TRUE(AwaitLine(base_ + "/next", "takes over when that one ends"));
  kill(standby, SIGKILL);
  waitpid(standby, nullptr, 0);
  EXPECT_TRUE(AwaitLine(base_ + "/next", "serving"));
  kill(next, SIGTERM);
  int status = 0;
  waitpid(next, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(DafsdTest, AStandbyEndsWithStatus0AtASignalThatStopsIt) {
  const pid_t active = StartLogged(base_ + "/active", Options());
  ASSERT_TRUE(AwaitLine(base_ + "/active", "serving"));
  const pid_t standby = StartLogged(base_ + "/standby", Options() + " --standby");
  EXPECT_TRUE(AwaitLine(base_ + "/standby", "takes over when that one ends"));
  kill(standby, SIGTERM);
  int status = 0;
  waitpid(standby, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  kill(active, SIGTERM);
  waitpid(active, nullptr, 0);
}

// The other server may hold the new file.
TEST_F(DafsdTest, AStandbyWhoseLockFileWasReplacedDoesNotServe) {
  const pid_t active = StartLogged(base_ + "/active", Options());
  ASSERT_TRUE(AwaitLine(base_ + "/active", "serving"));
  const pid_t standby = StartLogged(base_ + "/standby", Options() + " --standby");
  EXPECT_TRUE(AwaitLine(base_ + "/standby", "takes over when that one ends"));
  std::filesystem::remove(base_ + "/state/lock");
  std::ofstream(base_ + "/state/lock").close();
  kill(active, SIGKILL);
  waitpid(active, nullptr, 0);
  int status = 0;
  waitpid(standby, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
  EXPECT_TRUE(AwaitLine(base_ + "/standby", "was replaced"));
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

// Runs `dafsd arguments...` with `socket` as the one that a service manager passes. Returns its
// pid.
pid_t StartActivated(int socket, const std::string& log, std::vector<std::string> arguments) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(out, STDERR_FILENO);
  const int moved = fcntl(socket, F_DUPFD, 10);  // it may be 3 already, with FD_CLOEXEC
  dup2(moved, 3);
  setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
  setenv("LISTEN_FDS", "1", 1);
  arguments.insert(arguments.begin(), {DAFSD, "--foreground", "--admin-socket", "none"});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

TEST_F(DafsdTest, ServesTheSocketOfTheServiceManagerInsteadOfItsTcpAddresses) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 4), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  // A client that connects before dafsd runs waits for it: here for the end of a wrong request.
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(send(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, 0), 27);
  // 192.0.2.1 is not an address of this machine: dafsd must not try to listen there.
  const pid_t pid = StartActivated(listener, base_ + "/log",
                                   {"--export", "/a=" + base_ + "/a", "--listen", "tcp:192.0.2.1:1",
                                    "--state-dir", base_ + "/state"});
  const auto log = [this] {
    std::ifstream in(base_ + "/log");
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string serves = "on tcp:127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  // Before that line, the client may have been answered, but a signal ends the start.
  const absl::Time deadline = Loop::Now() + absl::Seconds(60);
  while (log().find(serves) == std::string::npos && Loop::Now() < deadline) sched_yield();
  EXPECT_THAT(log(), testing::HasSubstr(serves));
  char byte;
  if (!HasFailure()) {
    EXPECT_LE(recv(client, &byte, 1, 0), 0);
  }
  EXPECT_EQ(kill(pid, SIGTERM), 0);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  close(client);
  close(listener);
}

TEST_F(DafsdTest, RefusesADescriptorOfTheServiceManagerThatIsNoListeningSocket) {
  const int no_listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const pid_t pid =
      StartActivated(no_listener, base_ + "/log",
                     {"--export", "/a=" + base_ + "/a", "--state-dir", base_ + "/state"});
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
  std::ifstream in(base_ + "/log");
  const std::string log(std::istreambuf_iterator<char>(in), {});
  EXPECT_THAT(log, testing::HasSubstr("ListenStream="));
  close(no_listener);
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
