#include "runtime/helper_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace dafs {
namespace {

std::vector<char*> PointersTo(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

void AddStream(posix_spawn_file_actions_t& actions, int given, int stream, int flags) {
  if (given >= 0) {
    posix_spawn_file_actions_adddup2(&actions, given, stream);
  } else {
    posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", flags, 0);
  }
}

}  // namespace

absl::Status HelperProcess::Start(HelperProgram program) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  AddStream(actions, program.input, STDIN_FILENO, O_RDONLY);
  AddStream(actions, program.output, STDOUT_FILENO, O_WRONLY);
  AddStream(actions, -1, STDERR_FILENO, O_WRONLY);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error =
      posix_spawn(&pid_, program.path.c_str(), &actions, &attributes,
                  PointersTo(program.arguments).data(), PointersTo(program.environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return absl::OkStatus();
  pid_ = -1;
  return absl::FailedPreconditionError(absl::StrCat(program.path, ": ", std::strerror(error)));
}

int HelperProcess::Wait() {
  int status = 0;
  pid_t ended = -1;
  do {
    ended = waitpid(pid_, &status, 0);
  } while (ended < 0 && errno == EINTR);
  pid_ = -1;
  return ended < 0 ? W_EXITCODE(127, 0) : status;
}

HelperProcess::~HelperProcess() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  Wait();
}

std::vector<std::string> PassedOn(std::initializer_list<const char*> names) {
  std::vector<std::string> all;
  for (const char* name : names) {
    if (const char* value = getenv(name)) all.push_back(absl::StrCat(name, "=", value));
  }
  return all;
}

}  // namespace dafs
