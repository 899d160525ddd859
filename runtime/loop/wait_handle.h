// The descriptor that a thread waits on before it sleeps. A value.
#pragma once

#include <cstdint>

namespace dafs {

// The descriptor to wait on before sleeping. fd < 0: do not sleep, poll again.
struct WaitHandle {
  int fd = -1;
  uint32_t events = 0;  // epoll(7) events
};

}  // namespace dafs
