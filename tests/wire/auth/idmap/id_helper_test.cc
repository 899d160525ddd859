// dafs-idmap as a process, and hostile programs in its place.
#include "wire/auth/idmap/id_helper.h"

#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstddef>
#include <cstdlib>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/wire/auth/idmap/id_map_fixture.h"

namespace dafs::auth {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using Kind = IdQuestion::Kind;
using Outcome = IdAnswer::Outcome;

const IdQuestion kRoot = {.kind = Kind::kUserId, .name = "root@example.org"};

class IdHelperTest : public IdMapFixture {
 protected:
  static IdHelperOptions Real(absl::Duration answer_time = absl::Seconds(10)) {
    return {.path = DAFS_IDMAP,
            .domain = "example.org",
            .config = "/nowhere/idmapd.conf",
            .answer_time = answer_time};
  }
  IdHelperOptions Fake(const std::string& script,
                       absl::Duration answer_time = absl::Seconds(10)) const {
    IdHelperOptions options = Real(answer_time);
    options.path = Script(script);
    return options;
  }
  static void ExpectRoot(IdHelper& helper) {
    const auto answer = helper.Ask(kRoot);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->outcome, Outcome::kFound);
    EXPECT_EQ(answer->id, 0u);
  }
  static void ExpectUnavailable(IdHelper& helper, const std::string& text) {
    const auto answer = helper.Ask(kRoot);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable) << answer.status();
    EXPECT_THAT(std::string(answer.status().message()), HasSubstr(text));
  }
  // The only child, once there is one.
  static pid_t OnlyChildOf(pid_t parent) {
    std::vector<pid_t> children;
    for (int i = 0; i < 1000 && children.size() != 1; ++i) {
      if (i > 0) absl::SleepFor(absl::Milliseconds(5));
      children = ChildrenOf(parent);
    }
    EXPECT_THAT(children, SizeIs(1));
    return children.empty() ? -1 : children.front();
  }
};

TEST_F(IdHelperTest, MissingHelperIsNamedWithTheRemedy) {
  IdHelper helper({.path = "/nowhere/dafs-idmap", .config = "/etc/idmapd.conf"});
  ExpectUnavailable(helper, "/nowhere/dafs-idmap");
  ExpectUnavailable(helper, "install the package dafs-client");
  EXPECT_EQ(helper.Start().code(), absl::StatusCode::kUnavailable);
}

TEST_F(IdHelperTest, HelperThatEndsOrSendsGarbageIsReplaced) {
  IdHelper ends(Fake("exit 1"));
  const auto answer = ends.Ask(kRoot);  // it ends before the question or after it
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable) << answer.status();
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("has ended"));
  IdHelper garbage(Fake("head -c 1 <&0; printf garbage >&0; exec sleep 60"));
  ExpectUnavailable(garbage, "no valid answer");
  ExpectUnavailable(garbage, "no valid answer");
  IdHelper large(Fake(
      "exec 3>&0; head -c 160000 /dev/zero | dd bs=160000 iflag=fullblock >&3; exec sleep 60"));
  ExpectUnavailable(large, "no valid answer");
  EXPECT_THAT(ChildrenOf(getpid()), SizeIs(0)) << "each was killed";
}

TEST_F(IdHelperTest, QuestionEndsAfterTheTimeAndTheHelperStays) {
  IdHelper helper(Fake("exec sleep 60", absl::Milliseconds(200)));
  const absl::Time start = absl::Now();
  ExpectUnavailable(helper, "did not answer within 200ms");
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(200));
  ExpectUnavailable(helper, "did not answer");
  EXPECT_EQ(Starts(), 1u);
  EXPECT_THAT(ChildrenOf(getpid()), SizeIs(1));
}

TEST_F(IdHelperTest, LateAnswerIsNotTakenForThatOfTheNextQuestion) {
  IdHelper helper(Real(absl::Seconds(1)));
  ExpectRoot(helper);
  const pid_t process = OnlyChildOf(getpid());
  ASSERT_EQ(kill(process, SIGSTOP), 0);
  const auto late = helper.Ask({.kind = Kind::kUserName, .id = 1});
  EXPECT_EQ(late.status().code(), absl::StatusCode::kUnavailable) << late.status();
  ASSERT_EQ(kill(process, SIGCONT), 0);
  ExpectRoot(helper);
  const auto name = helper.Ask({.kind = Kind::kUserName, .id = 1});
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(name->text, "daemon@example.org");
  EXPECT_EQ(OnlyChildOf(getpid()), process);
}

TEST_F(IdHelperTest, StopEndsAQuestionThatWaits) {
  IdHelper helper(Fake("exec sleep 60", absl::Seconds(60)));
  std::thread stops([this, &helper] {
    while (Starts() == 0) absl::SleepFor(absl::Milliseconds(2));
    helper.Stop();
  });
  EXPECT_EQ(helper.Ask(kRoot).status().code(), absl::StatusCode::kCancelled);
  stops.join();
  EXPECT_EQ(helper.Ask(kRoot).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(helper.Start().code(), absl::StatusCode::kCancelled);
}

TEST_F(IdHelperTest, KilledHelperIsReplacedByTheNextQuestion) {
  IdHelper helper(Real());
  ExpectRoot(helper);
  const pid_t killed = OnlyChildOf(getpid());
  const pid_t worker = OnlyChildOf(killed);
  ASSERT_EQ(kill(killed, SIGKILL), 0);
  while (!ChildrenOf(getpid()).empty()) absl::SleepFor(absl::Milliseconds(2));
  ExpectRoot(helper);
  EXPECT_NE(OnlyChildOf(getpid()), killed);
  while (IsRunning(worker)) absl::SleepFor(absl::Milliseconds(2));  // it ends with its parent
}

TEST_F(IdHelperTest, KilledWorkerIsReplacedByTheSameHelper) {
  IdHelper helper(Real());
  ExpectRoot(helper);
  const pid_t process = OnlyChildOf(getpid());
  ASSERT_EQ(kill(OnlyChildOf(process), SIGKILL), 0);
  while (!ChildrenOf(process).empty()) absl::SleepFor(absl::Milliseconds(2));
  ExpectRoot(helper);
  EXPECT_EQ(OnlyChildOf(getpid()), process);
}

TEST_F(IdHelperTest, WorkerThatHangsIsKilledAndReplaced) {
  IdHelper helper(Real(absl::Seconds(1)));
  ExpectRoot(helper);
  const pid_t process = OnlyChildOf(getpid());
  const pid_t hangs = OnlyChildOf(process);
  ASSERT_EQ(kill(hangs, SIGSTOP), 0);
  ExpectUnavailable(helper, "libnfsidmap did not answer within 900ms");
  while (IsRunning(hangs)) absl::SleepFor(absl::Milliseconds(2));
  ExpectRoot(helper);
  EXPECT_EQ(OnlyChildOf(getpid()), process);
}

TEST_F(IdHelperTest, HelperOutlivesTheSignalsOfAServiceManager) {
  IdHelper helper(Real());
  ExpectRoot(helper);
  const pid_t process = OnlyChildOf(getpid());
  const pid_t worker = OnlyChildOf(process);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    kill(process, number);
    kill(worker, number);
  }
  ExpectRoot(helper);
  EXPECT_EQ(OnlyChildOf(getpid()), process);
  EXPECT_EQ(OnlyChildOf(process), worker);
}

TEST_F(IdHelperTest, HelperAndItsWorkerHaveNoCapabilities) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  IdHelper helper(Real());
  ExpectRoot(helper);
  const pid_t process = OnlyChildOf(getpid());
  for (const pid_t pid : {process, OnlyChildOf(process)}) {
    std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
    const std::string status(std::istreambuf_iterator<char>(file), {});
    EXPECT_THAT(status, HasSubstr("CapEff:\t0000000000000000"));
    EXPECT_THAT(status, HasSubstr("NoNewPrivs:\t1"));
  }
}

// From now on, this process executes no program, as dafsd after Confine.
bool ForbidExecution() {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ, SYS_execve, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {.len = std::size(code), .filter = code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// 0: all is as expected; otherwise the number of the step.
int AskWithoutExecution(IdHelperOptions options) {
  IdHelper helper(std::move(options));
  if (!helper.Start().ok()) return 1;
  if (!ForbidExecution()) return 2;
  if (const auto answer = helper.Ask(kRoot); !answer.ok()) return 3;
  const std::vector<pid_t> processes = ChildrenOf(getpid());
  if (processes.size() != 1) return 4;
  const std::vector<pid_t> workers = ChildrenOf(processes[0]);
  if (workers.size() != 1 || kill(workers[0], SIGKILL) != 0) return 5;
  while (!ChildrenOf(processes[0]).empty()) absl::SleepFor(absl::Milliseconds(2));
  if (const auto answer = helper.Ask(kRoot); !answer.ok()) return 6;
  kill(processes[0], SIGKILL);
  while (!ChildrenOf(getpid()).empty()) absl::SleepFor(absl::Milliseconds(2));
  const auto answer = helper.Ask(kRoot);
  return absl::StrContains(answer.status().message(), "restart this program") ? 0 : 7;
}

TEST_F(IdHelperTest, HelperThatIsStartedBeforeReplacesItsWorkerWithoutExecution) {
  const pid_t child = fork();
  if (child == 0) _exit(AskWithoutExecution(Real()));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "step " << WEXITSTATUS(status);
}

TEST(DafsIdmapTest, WrongArgumentsAreRefused) {
  for (const char* words : {"", "1000 x", "0 x /c", "x '' /c", "1000 'a b' /c", "1000 '' c",
                            "1000 'a#' /c", "1000 x /c y"}) {
    const int status = system(absl::StrCat(DAFS_IDMAP, " ", words, " </dev/null").c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << words;
  }
}

}  // namespace
}  // namespace dafs::auth
