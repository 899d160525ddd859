// The limits of a confined process. Each case runs in a child.
#include "server/daemon/confinement.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <thread>

#include "absl/base/config.h"

namespace dafs::server {
namespace {

// Returns what `act` returns in a confined child; 200 if the child could not be confined.
int InConfinedChild(const std::function<int()>& act) {
  const pid_t child = fork();
  if (child == 0) _exit(Confine().ok() ? act() : 200);
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 201;
  return WEXITSTATUS(status);
}

bool IsPermitted(int capability) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  return (data[capability / 32].permitted >> (capability % 32) & 1) != 0;
}

TEST(ConfinementTest, UnusedCapabilitiesAreDroppedInEachThread) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const auto is_dropped = [] {
    for (const int dropped : {CAP_SYS_MODULE, CAP_SYS_PTRACE, CAP_NET_ADMIN, CAP_NET_RAW,
                              CAP_SYS_RAWIO, CAP_SYS_BOOT, CAP_SETPCAP, CAP_KILL}) {
      if (IsPermitted(dropped)) return false;
    }
    return IsPermitted(CAP_DAC_READ_SEARCH) && IsPermitted(CAP_SETUID);
  };
  EXPECT_EQ(InConfinedChild([&] { return is_dropped() ? 0 : 1; }), 0);
  EXPECT_EQ(InConfinedChild([&] {
              bool is_dropped_there = false;
              std::thread([&] { is_dropped_there = is_dropped(); }).join();
              return is_dropped_there ? 0 : 1;
            }),
            0);
}

TEST(ConfinementTest, NothingGivesNewPrivileges) {
  EXPECT_EQ(InConfinedChild([] { return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); }), 1);
}

#if !defined(ABSL_HAVE_ADDRESS_SANITIZER) && !defined(ABSL_HAVE_THREAD_SANITIZER)

int ErrorOf(long result) { return result == -1 ? errno : 0; }

TEST(ConfinementTest, RefusedSystemCallsFailWithEperm) {
  EXPECT_EQ(InConfinedChild([] {
              char* const words[] = {const_cast<char*>("true"), nullptr};
              return ErrorOf(execv("/bin/true", words));
            }),
            EPERM);
  EXPECT_EQ(InConfinedChild([] { return ErrorOf(mount("none", "/mnt", "tmpfs", 0, nullptr)); }),
            EPERM);
  EXPECT_EQ(InConfinedChild([] { return ErrorOf(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)); }),
            EPERM);
  EXPECT_EQ(InConfinedChild([] { return ErrorOf(unshare(CLONE_NEWUSER)); }), EPERM);
  EXPECT_EQ(InConfinedChild([] { return ErrorOf(unshare(CLONE_NEWNS)); }), EPERM);
}

// The server's own use of unshare(2), and of processes by libraries.
TEST(ConfinementTest, NeededSystemCallsSucceed) {
  EXPECT_EQ(InConfinedChild([] { return ErrorOf(unshare(CLONE_FS)); }), 0);
  EXPECT_EQ(InConfinedChild([] {
              const pid_t child = fork();
              if (child == 0) _exit(7);
              int status = 0;
              waitpid(child, &status, 0);
              return WEXITSTATUS(status);
            }),
            7);
}

#endif

}  // namespace
}  // namespace dafs::server
