// dafs-lock: runs a command under a lock, as flock(1) does, also under persistent locks of DAFS
// mounts. See dafs-lock(1).
#include <fcntl.h>
#include <getopt.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/files/lock_ioctl.h"

namespace dafs::client {
namespace {

constexpr int kBroken = 3;                                     // exit status: the lock is broken
constexpr absl::Duration kAskEvery = absl::Milliseconds(100);  // the ioctl does not wait

struct LockCommand {
  bool shared = false;
  bool persist = false;
  bool repair = false;
  bool auto_recover = false;
  bool abort = false;
  bool unlock = false;
  bool nonblock = false;
  bool close = false;
  double timeout_s = -1;  // negative: none
  int conflict_status = 1;
  std::string shell;  // -c
  std::string file;
  std::vector<std::string> command;
};

int Say(const std::string& what, const char* why) {
  std::fprintf(stderr, "dafs-lock: %s: %s\n", what.c_str(), why);
  return EX_UNAVAILABLE;
}

// Returns an errno.
int AskMount(int fd, const LockCommand& o, uint32_t flags) {
  LockIoctl lock;
  lock.type = o.unlock ? F_UNLCK : o.shared ? F_RDLCK : F_WRLCK;
  lock.flags = flags | (o.persist ? kLockIoctlPersist : 0) | (o.repair ? kLockIoctlRepair : 0) |
               (o.auto_recover ? kLockIoctlAutoRecover : 0);
  return ioctl(fd, kLockIoctl, &lock) == 0 ? 0 : errno;
}

// Takes broken locks of flock(2) and of fcntl(2) over. EINVAL: there is neither.
int Repair(int fd, const LockCommand& o) {
  const int of_records = AskMount(fd, o, kLockIoctlRecords);
  if (of_records != 0 && of_records != EINVAL) return of_records;
  const int of_flock = AskMount(fd, o, 0);
  return of_flock == EINVAL ? of_records : of_flock;
}

// Has the mount undo what was changed under the lock. Returns an errno.
int Abort(int fd) {
  if (fsync(fd) != 0) return errno;
  LockIoctl lock;
  lock.type = F_WRLCK;
  lock.flags = kLockIoctlAbort;
  return ioctl(fd, kLockIoctl, &lock) == 0 ? 0 : errno;
}

int TryOnce(int fd, const LockCommand& o) {
  if (o.repair) return Repair(fd, o);
  if (o.persist || o.auto_recover) return AskMount(fd, o, 0);
  return flock(fd, (o.unlock ? LOCK_UN : o.shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0 ? 0 : errno;
}

// Returns an errno: EAGAIN if the time is over.
int Take(int fd, const LockCommand& o) {
  const absl::Time deadline = o.nonblock         ? absl::InfinitePast()
                              : o.timeout_s >= 0 ? absl::Now() + absl::Seconds(o.timeout_s)
                                                 : absl::InfiniteFuture();
  const bool waits_in_kernel =
      !o.persist && !o.repair && !o.auto_recover && deadline == absl::InfiniteFuture();
  for (;;) {
    const int error = waits_in_kernel && !o.unlock
                          ? (flock(fd, o.shared ? LOCK_SH : LOCK_EX) == 0 ? 0 : errno)
                          : TryOnce(fd, o);
    if (error != EAGAIN || absl::Now() >= deadline) return error;
    absl::SleepFor(kAskEvery);
  }
}

// A lock for writing may be taken with a descriptor for reading, as by flock(1), but a repair and
// an auto-recovery lock need one for writing.
int OpenFile(const LockCommand& o) {
  const int fd = open(o.file.c_str(), O_RDWR | O_CREAT | O_NOCTTY | O_CLOEXEC, 0666);
  if (fd >= 0 || o.repair || o.auto_recover) return fd;
  return open(o.file.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC);
}

// Runs the command, which keeps the lock until it and its children have ended. Returns its exit
// status.
int RunCommand(int fd, const LockCommand& o) {
  std::vector<std::string> words = o.command;
  if (!o.shell.empty()) {
    const char* const shell = std::getenv("SHELL");
    words = {shell != nullptr && *shell != 0 ? shell : "/bin/sh", "-c", o.shell};
  }
  if (words.empty()) return 0;
  const pid_t child = fork();
  if (child < 0) return Say("fork", std::strerror(errno));
  if (child == 0) {
    if (!o.close) fcntl(fd, F_SETFD, 0);
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    Say(words[0], std::strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return Say("wait", std::strerror(errno));
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int Run(const LockCommand& o) {
  int fd = -1;
  if (o.command.empty() && o.shell.empty() && absl::SimpleAtoi(o.file, &fd)) {
    if (fd < 0 || fcntl(fd, F_GETFD) < 0) return Say(o.file, "not an open descriptor");
  } else {
    fd = OpenFile(o);
    if (fd < 0) return Say(o.file, std::strerror(errno));
  }
  if (o.abort) {
    const int error = Abort(fd);
    return error == 0 ? 0 : Say(o.file, std::strerror(error));
  }
  switch (const int error = Take(fd, o)) {
    case 0: {
      const int status = RunCommand(fd, o);
      if (!o.auto_recover || status == 0) return status;
      const int undone = Abort(fd);
      if (undone != 0) Say(absl::StrCat(o.file, ": not undone"), std::strerror(undone));
      return status;
    }
    case EAGAIN:
      return o.conflict_status;
    case EOWNERDEAD:
      Say(o.file,
          "the client that held the lock has failed; repair the file under dafs-lock --repair");
      return kBroken;
    case EINVAL:
      return o.repair ? Say(o.file, "no lock of it is broken") : Say(o.file, std::strerror(error));
    case ENOLCK:
      return Say(o.file, o.auto_recover ? "the server offers no auto-recovery lock here, or has no "
                                          "room for another lock"
                                        : std::strerror(error));
    case ENOTTY:
      return Say(o.file, "not on a mount with persistent locks");
    default:
      return Say(o.file, std::strerror(error));
  }
}

constexpr char kHelp[] =
    "Usage: dafs-lock [OPTIONS] FILE [COMMAND [ARGUMENT]...]\n"
    "       dafs-lock [OPTIONS] FILE -c SHELL-COMMAND\n"
    "       dafs-lock [OPTIONS] DESCRIPTOR\n"
    "Runs a command under a lock, as flock(1), also under persistent locks of DAFS mounts.\n\n"
    "  -p, --persist                  if this client fails, the lock is broken, not released\n"
    "  -a, --auto-recover             if the command or this client fails, undo the changes\n"
    "  -A, --abort                    undo the changes under the lock of a descriptor\n"
    "  -r, --repair                   take over broken locks, repaired when COMMAND ends\n"
    "  -x, -e, --exclusive            an exclusive lock (default)\n"
    "  -s, --shared                   a shared lock\n"
    "  -u, --unlock                   release the lock of a descriptor\n"
    "  -n, --nonblock                 fail instead of waiting\n"
    "  -w, --timeout SECONDS          wait at most SECONDS\n"
    "  -E, --conflict-exit-code N     exit status if another owner holds the lock (default 1)\n"
    "  -o, --close                    the command does not inherit the lock\n"
    "  -h, --help                     this text\n"
    "  -V, --version                  the version\n\n"
    "Exit status: that of the command; 3 if the lock is broken. See dafs-lock(1).\n";

int Usage(const std::string& what) {
  std::fprintf(stderr, "dafs-lock: %s\nTry dafs-lock --help.\n", what.c_str());
  return EX_USAGE;
}

constexpr option kOptions[] = {{"persist", no_argument, nullptr, 'p'},
                               {"repair", no_argument, nullptr, 'r'},
                               {"auto-recover", no_argument, nullptr, 'a'},
                               {"abort", no_argument, nullptr, 'A'},
                               {"exclusive", no_argument, nullptr, 'x'},
                               {"shared", no_argument, nullptr, 's'},
                               {"unlock", no_argument, nullptr, 'u'},
                               {"nonblock", no_argument, nullptr, 'n'},
                               {"nb", no_argument, nullptr, 'n'},
                               {"timeout", required_argument, nullptr, 'w'},
                               {"wait", required_argument, nullptr, 'w'},
                               {"conflict-exit-code", required_argument, nullptr, 'E'},
                               {"close", no_argument, nullptr, 'o'},
                               {"help", no_argument, nullptr, 'h'},
                               {"version", no_argument, nullptr, 'V'},
                               {}};

// Sets the option. Returns false if its value is wrong.
bool SetOption(int letter, LockCommand& o) {
  switch (letter) {
    case 'p':
      return o.persist = true;
    case 'r':
      return o.repair = true;
    case 'a':
      return o.auto_recover = true;
    case 'A':
      return o.abort = true;
    case 'x':
    case 'e':
      o.shared = false;
      return true;
    case 's':
      return o.shared = true;
    case 'u':
      return o.unlock = true;
    case 'n':
      return o.nonblock = true;
    case 'o':
      return o.close = true;
    case 'w':
      return absl::SimpleAtod(optarg, &o.timeout_s) && o.timeout_s >= 0;
    case 'E':
      return absl::SimpleAtoi(optarg, &o.conflict_status) && o.conflict_status >= 0 &&
             o.conflict_status <= 255;
    default:
      return false;
  }
}

int Main(int argc, char** argv) {
  LockCommand o;
  // "+": what follows FILE belongs to the command.
  for (int letter;
       (letter = getopt_long(argc, argv, "+praAxesunow:E:hV", kOptions, nullptr)) != -1;) {
    if (letter == 'h') return std::fputs(kHelp, stdout) < 0 ? 1 : 0;
    if (letter == 'V') return std::puts("dafs-lock " DAFS_VERSION) < 0 ? 1 : 0;
    if (letter == '?') return Usage("unknown option, or one without its value");
    if (!SetOption(letter, o)) return Usage(absl::StrCat("bad value: ", optarg));
  }
  const std::vector<std::string> words(argv + optind, argv + argc);
  if (words.empty()) return Usage("FILE is missing");
  o.file = words[0];
  const bool is_shell = words.size() > 1 && (words[1] == "-c" || words[1] == "--command");
  if (is_shell && words.size() != 3) return Usage("-c takes one command");
  if (is_shell) {
    o.shell = words[2];
  } else {
    o.command.assign(words.begin() + 1, words.end());
  }
  if ((o.repair || o.auto_recover) && o.shared) {
    return Usage("--repair and --auto-recover take an exclusive lock");
  }
  if (o.repair && o.auto_recover) return Usage("give one of --repair and --auto-recover");
  if ((o.unlock || o.abort) && (o.repair || is_shell || !o.command.empty())) {
    return Usage("-u and --abort take a descriptor and nothing else");
  }
  return Run(o);
}

}  // namespace
}  // namespace dafs::client

int main(int argc, char** argv) { return dafs::client::Main(argc, argv); }
