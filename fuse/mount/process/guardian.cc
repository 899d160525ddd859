#include "fuse/mount/process/guardian.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "fuse/kernel/notifications/memory_pressure.h"
#include "fuse/mount/process/exit_code.h"
#include "runtime/log/log.h"
#include "runtime/loop/loop.h"

namespace dafs::fuse {
namespace {

// How often a successor is started with one record. The last one is the guardian's own program.
constexpr int kMostStarts = 3;

// More kills mean that something kills each program.
constexpr size_t kMostKills = 30;
constexpr absl::Duration kKillsWithin = absl::Minutes(1);

sigset_t GuardianSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, number);
  return set;
}

void ShowTitle(const GuardianPlan& plan) {
  prctl(PR_SET_NAME, "dafs-guardian");
  char* const begin = plan.argv[0];
  char* end = begin;
  // The words adjoin each other.
  for (char** word = plan.argv; *word != nullptr && *word == end; ++word) {
    end = *word + std::strlen(*word) + 1;
  }
  const auto room = static_cast<size_t>(end - begin);
  if (room == 0) return;
  std::memset(begin, 0, room);
  std::copy_n(plan.title.data(), std::min(plan.title.size(), room - 1), begin);
}

class Guardian {
 public:
  Guardian(const GuardianPlan& plan, UniqueFd link, pid_t child, UniqueFd signals)
      : plan_(plan), link_(std::move(link)), child_(child), signals_(std::move(signals)) {}

  [[noreturn]] void Run() {
    for (;;) {
      pollfd waits[] = {{.fd = signals_.get(), .events = POLLIN, .revents = 0},
                        {.fd = link_.get(), .events = POLLIN, .revents = 0}};
      if (poll(waits, 2, -1) < 0) continue;
      // Messages first: the program may have ended after its last one.
      if (waits[1].revents != 0) {
        Hear();
      } else if (waits[0].revents != 0) {
        TakeSignal();
      }
    }
  }

 private:
  void Hear() {
    std::optional<LinkMessage> message = ReceiveMessage(link_.get());
    if (!message.has_value()) return link_.Close();  // SIGCHLD follows
    switch (message->kind) {
      case LinkMessage::kKeep:
        kept_ = *std::move(message);
        break;
      case LinkMessage::kRecord:
        if (message->fds.size() != 1) break;
        record_ = std::move(message->fds[0]);
        program_ = std::move(message->text);
        starts_ = 0;
        break;
      case LinkMessage::kSurvive:
        if (message->fds.size() != 2) break;
        killed_ = *std::move(message);
        outlives_ = true;
        break;
      case LinkMessage::kServing:
        if (!outlives_) killed_ = {};  // those of an earlier program
        record_.Close();
        after_kill_ = false;
        break;
      case LinkMessage::kEnd:
        told_to_end_ = true;
        break;
      case LinkMessage::kContinue:
      case LinkMessage::kKilled:
        break;
    }
  }

  void TakeSignal() {
    signalfd_siginfo info = {};
    if (read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return;
    if (info.ssi_signo != SIGCHLD) {
      told_to_end_ = true;
      kill(child_, static_cast<int>(info.ssi_signo));
      return;
    }
    int status = 0;
    if (waitpid(child_, &status, WNOHANG) != child_) return;
    if (WIFSIGNALED(status) && !record_.valid() && MayContinueAfterKill()) after_kill_ = true;
    if ((record_.valid() || after_kill_) && starts_ < kMostStarts) return StartSuccessor();
    if (record_.valid() || after_kill_) {
      LogError("no program could continue the mount: it has ended");
    } else if (WIFSIGNALED(status)) {
      LogError("mount.dafs was killed by signal " + std::to_string(WTERMSIG(status)) +
               ": its mount is lost; unmount it and mount again");
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(ExitCode::kInternal));
  }

  // A mount.dafs that had to end, or is killed again and again, is not continued.
  bool MayContinueAfterKill() {
    if (killed_.fds.empty() || told_to_end_ || after_kill_) return false;
    const absl::Time now = Loop::Now();
    while (!kills_.empty() && kills_.front() < now - kKillsWithin) kills_.pop_front();
    if (kills_.size() == kMostKills) return false;
    kills_.push_back(now);
    program_ = killed_.text;
    starts_ = 0;
    return true;
  }

  void StartSuccessor() {
    ++starts_;
    outlives_ = false;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
      LogError(std::string("socketpair: ") + std::strerror(errno));
      _exit(static_cast<int>(ExitCode::kSystem));
    }
    link_ = UniqueFd(ends[0]);
    const UniqueFd far(ends[1]);
    child_ = fork();
    if (child_ < 0) {
      LogError(std::string("fork: ") + std::strerror(errno));
      _exit(static_cast<int>(ExitCode::kSystem));
    }
    if (child_ == 0) Become(far.get());
    std::vector<int> fds;
    if (after_kill_) {
      for (const UniqueFd& fd : killed_.fds) fds.push_back(fd.get());
    } else {
      fds.push_back(record_.get());
    }
    for (const UniqueFd& fd : kept_.fds) fds.push_back(fd.get());
    const auto kind = after_kill_ ? LinkMessage::kKilled : LinkMessage::kContinue;
    // Closed, so that the program does not wait for the message without end.
    if (!SendMessage(link_.get(), kind, kept_.text, fds)) link_.Close();
    // The program that got the signal may have ended before it could handle it.
    if (told_to_end_) kill(child_, SIGTERM);
  }

  // SIGTERM and the like stay blocked until the successor can handle them.
  [[noreturn]] void Become(int link) {
    sigset_t unblock;
    sigemptyset(&unblock);
    sigaddset(&unblock, SIGCHLD);
    sigprocmask(SIG_UNBLOCK, &unblock, nullptr);
    if (!plan_.foreground) setsid();
    fcntl(link, F_SETFD, 0);
    setenv(kGuardianVariable, std::to_string(link).c_str(), 1);
    std::vector<char*> words;
    for (const std::string& word : plan_.words) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execv(starts_ == kMostStarts ? "/proc/self/exe" : program_.c_str(), words.data());
    LogError(program_ + ": " + std::strerror(errno));
    _exit(static_cast<int>(ExitCode::kSystem));
  }

  const GuardianPlan& plan_;
  UniqueFd link_;
  pid_t child_;
  UniqueFd signals_;
  LinkMessage kept_;
  LinkMessage killed_;            // of kSurvive
  bool outlives_ = false;         // the program has sent it
  bool after_kill_ = false;       // a successor has been started with it, and does not serve yet
  bool told_to_end_ = false;      // by a signal, to this process or to mount.dafs
  std::deque<absl::Time> kills_;  // the latest ones
  UniqueFd record_;
  std::string program_;
  int starts_ = 0;  // with this record
};

}  // namespace

absl::StatusOr<GuardianLink> StartGuardian(const GuardianPlan& plan, Daemon& daemon) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, "socketpair");
  }
  UniqueFd near(ends[0]);
  UniqueFd far(ends[1]);
  // If SIGCHLD is ignored, the kernel does not report the end of a child.
  signal(SIGCHLD, SIG_DFL);
  // Before the fork, so that no signal is lost.
  const sigset_t set = GuardianSignals();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &set, &before);
  UniqueFd signals(signalfd(-1, &set, SFD_CLOEXEC));
  const pid_t child = signals.valid() ? fork() : -1;
  if (child < 0) {
    const int error = errno;
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return absl::ErrnoToStatus(error, "guardian");
  }
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return GuardianLink(std::move(far));
  }
  far.Close();
  daemon.LeaveToChild();
  PrepareForMemoryPressure();
  if (!plan.foreground) {
    LeaveTerminal();
    LogToSyslog("mount.dafs", Severity::kNotice);  // -v logs to standard error until then
  }
  ShowTitle(plan);
  Guardian(plan, std::move(near), child, std::move(signals)).Run();
}

}  // namespace dafs::fuse
