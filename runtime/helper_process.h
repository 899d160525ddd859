// A helper program as a child process. It gets the arguments and the environment that it is given,
// one end of a pipe or socket, no other descriptor of this process, and no blocked or ignored
// signal. Belongs to one thread.
#pragma once

#include <sys/types.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace dafs {

struct HelperProgram {
  std::string path;
  std::vector<std::string> arguments = {};    // the first one is the name of the program
  std::vector<std::string> environment = {};  // "NAME=VALUE"
  // Descriptors for the helper's standard input and output, which the caller keeps. -1: /dev/null.
  // The standard error is /dev/null.
  int input = -1;
  int output = -1;
};

class HelperProcess {
 public:
  HelperProcess() = default;
  // Kills the helper, and blocks until it has ended.
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  // Call it once. kFailedPrecondition, "PATH: why": the program cannot be started.
  absl::Status Start(HelperProgram program);
  // Blocks until the helper has ended. Returns its status, as waitpid(2); one of exit status 127 if
  // that is lost, because this process ignores SIGCHLD. Call it once, after Start.
  int Wait();

 private:
  pid_t pid_ = -1;
};

// The variables `names` of this process that are set, as "NAME=VALUE".
std::vector<std::string> PassedOn(std::initializer_list<const char*> names);

}  // namespace dafs
