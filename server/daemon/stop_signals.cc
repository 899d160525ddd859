#include "server/daemon/stop_signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "runtime/files/unique_fd.h"
#include "runtime/log/log.h"

namespace dafs::server {

StopSignals::StopSignals() {
  sigemptyset(&stop_);
  sigaddset(&stop_, SIGTERM);
  sigaddset(&stop_, SIGINT);
  all_ = stop_;
  sigaddset(&all_, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &all_, nullptr);
}

int StopSignals::Wait() const {
  int number = 0;
  sigwait(&all_, &number);
  return number;
}

StopSignals::EndProcess::EndProcess(const StopSignals& signals)
    : over_(eventfd(0, EFD_CLOEXEC)), thread_([this, &signals] {
        const UniqueFd come(signalfd(-1, &signals.stop_, SFD_CLOEXEC));
        pollfd fds[] = {{come.get(), POLLIN, 0}, {over_.get(), POLLIN, 0}};
        while (poll(fds, 2, -1) < 0) {
        }
        if ((fds[0].revents & POLLIN) == 0) return;
        int number = 0;
        sigwait(&signals.stop_, &number);
        LogNotice(absl::StrCat("stopped during the start: signal ", number));
        _exit(0);  // as a later stop: a service manager must not report a failure
      }) {}

StopSignals::EndProcess::~EndProcess() {
  eventfd_write(over_.get(), 1);
  thread_.join();
}

}  // namespace dafs::server
