// `dafsctl doctor`: checks of this machine, and of the way to a server. Each failure names its
// remedy.
#pragma once

#include <string>

#include "client/ctl/doctor_checks.h"
#include "client/ctl/tls_arguments.h"

namespace CLI {
class App;
}

namespace dafs::client {

struct DoctorOptions {
  std::string server;  // empty: only this machine
  TlsArguments tls;
  DoctorPlace place;
  bool json = false;
};

CLI::App* AddDoctorCommand(CLI::App& app, DoctorOptions& options);

// Prints the findings. Returns the exit status: 0 if all is well, 1 with warnings only, 2 if a
// check failed. Blocks for some seconds if a server does not answer.
int RunDoctor(const DoctorOptions& options);

}  // namespace dafs::client
