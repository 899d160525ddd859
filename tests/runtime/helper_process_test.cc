#include "runtime/helper_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "runtime/files/unique_fd.h"

namespace dafs {
namespace {

struct Pipe {
  Pipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe(ends), 0);
    read_end = UniqueFd(ends[0]);
    write_end = UniqueFd(ends[1]);
  }
  // All that the other end writes.
  std::string Rest() {
    write_end.Close();
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = read(read_end.get(), buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<size_t>(n));
    }
    return text;
  }
  UniqueFd read_end, write_end;
};

HelperProgram Shell(const std::string& script) {
  return {.path = "/bin/sh", .arguments = {"sh", "-c", script}, .environment = {}};
}

TEST(HelperProcess, OutputAndExitStatusAreThoseOfTheHelper) {
  Pipe pipe;
  HelperProgram program = Shell("echo \"$GREETING\"; exit 3");
  program.environment = {"GREETING=hello"};
  program.output = pipe.write_end.get();
  HelperProcess helper;
  ASSERT_TRUE(helper.Start(program).ok());
  EXPECT_EQ(pipe.Rest(), "hello\n");
  const int status = helper.Wait();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST(HelperProcess, GetsNoOtherDescriptorOfThisProcess) {
  const Pipe other;  // without O_CLOEXEC
  Pipe pipe;
  const std::string fd = std::to_string(other.write_end.get());
  HelperProgram program = Shell("[ -e /proc/self/fd/" + fd + " ] || echo closed");
  program.output = pipe.write_end.get();
  HelperProcess helper;
  ASSERT_TRUE(helper.Start(program).ok());
  EXPECT_EQ(pipe.Rest(), "closed\n");
}

TEST(HelperProcess, StandardInputIsEmptyUnlessItIsGiven) {
  Pipe in, out, own;
  HelperProgram program = Shell("cat");
  program.output = out.write_end.get();
  {
    // The helper must not read the standard input of this process.
    const UniqueFd before(dup(STDIN_FILENO));
    ASSERT_EQ(write(own.write_end.get(), "wrong", 5), 5);
    own.write_end.Close();
    ASSERT_EQ(dup2(own.read_end.get(), STDIN_FILENO), STDIN_FILENO);
    HelperProcess helper;
    const absl::Status started = helper.Start(program);
    dup2(before.get(), STDIN_FILENO);
    ASSERT_TRUE(started.ok());
    EXPECT_EQ(helper.Wait(), 0);
  }
  program.input = in.read_end.get();
  ASSERT_EQ(write(in.write_end.get(), "given", 5), 5);
  in.write_end.Close();
  HelperProcess helper;
  ASSERT_TRUE(helper.Start(program).ok());
  EXPECT_EQ(out.Rest(), "given");
}

TEST(HelperProcess, SignalsThatThisProcessBlocksAreNotBlocked) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  HelperProcess helper;
  const absl::Status started = helper.Start(Shell("kill -TERM $$; exit 0"));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(started.ok());
  const int status = helper.Wait();
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST(HelperProcess, DestructorKillsTheHelper) {
  Pipe pipe;
  HelperProgram program = Shell("exec sleep 1000");
  program.output = pipe.write_end.get();
  {
    HelperProcess helper;
    ASSERT_TRUE(helper.Start(program).ok());
  }
  pipe.write_end.Close();
  pollfd end = {pipe.read_end.get(), POLLIN, 0};
  ASSERT_EQ(poll(&end, 1, /*timeout=*/20'000), 1);
  EXPECT_NE(end.revents & POLLHUP, 0);  // no process has the other end
}

TEST(HelperProcess, AnAbsentProgramIsNamedInTheError) {
  HelperProcess helper;
  const absl::Status status =
      helper.Start({.path = "/nonexistent/helper", .arguments = {"helper"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "/nonexistent/helper: No such file or directory");
}

}  // namespace
}  // namespace dafs
