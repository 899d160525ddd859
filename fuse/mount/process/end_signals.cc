#include "fuse/mount/process/end_signals.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <cerrno>

namespace dafs::fuse {

EndSignals::EndSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  fd_ = UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

bool EndSignals::Wait(const Daemon& daemon, absl::Duration most) const {
  pollfd waits[] = {{.fd = fd_.get(), .events = POLLIN, .revents = 0},
                    {.fd = daemon.parent_gone_fd(), .events = 0, .revents = 0}};
  const auto milliseconds = static_cast<int>(absl::ToInt64Milliseconds(most));
  const int ready = poll(waits, 2, milliseconds);
  return ready == 0 || (ready < 0 && errno == EINTR);
}

}  // namespace dafs::fuse
