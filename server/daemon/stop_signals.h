// SIGTERM and SIGINT, which stop the server, and SIGHUP, which makes it read its exports again.
#pragma once

#include <signal.h>

#include <thread>

#include "runtime/files/unique_fd.h"

namespace dafs::server {

// Blocks these signals, so that they arrive only where they are awaited. Create before any thread.
class StopSignals {
 public:
  StopSignals();

  // Waits for one of the signals and returns its number.
  int Wait() const;

  // While it lives, a thread of its own ends the process with status 0 at a signal that stops the
  // server; SIGHUP stays pending. It is for
  // a start that may wait for a file system that hangs. The state directory is then as after a
  // kill.
  class EndProcess {
   public:
    explicit EndProcess(const StopSignals& signals);
    ~EndProcess();
    EndProcess(const EndProcess&) = delete;
    EndProcess& operator=(const EndProcess&) = delete;

   private:
    const UniqueFd over_;  // an eventfd
    std::thread thread_;
  };

 private:
  sigset_t stop_;  // SIGTERM, SIGINT
  sigset_t all_;
};

}  // namespace dafs::server
