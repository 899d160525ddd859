#include "server/daemon/stop_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "runtime/log.h"
#include "runtime/unique_fd.h"

namespace dafs::server {

StopSignals::StopSignals() {
  sigemptyset(&set_);
  sigaddset(&set_, SIGTERM);
  sigaddset(&set_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
}

int StopSignals::Wait() const {
  int number = 0;
  sigwait(&set_, &number);
  return number;
}

StopSignals::EndProcess::EndProcess(const StopSignals& signals)
    : over_(eventfd(0, EFD_CLOEXEC)), thread_([this, &signals] {
        const UniqueFd come(signalfd(-1, &signals.set_, SFD_CLOEXEC));
        pollfd fds[] = {{come.get(), POLLIN, 0}, {over_.get(), POLLIN, 0}};
        while (poll(fds, 2, -1) < 0) {
        }
        if ((fds[0].revents & POLLIN) == 0) return;
        LogNotice(absl::StrCat("stopped during the start: signal ", signals.Wait()));
        _exit(0);  // as a later stop: a service manager must not report a failure
      }) {}

StopSignals::EndProcess::~EndProcess() {
  eventfd_write(over_.get(), 1);
  thread_.join();
}

}  // namespace dafs::server
