// Messages that a server sends to clients without a request: callbacks, recalls, and the
// announcements of locks. Each is made before the workers, and outlives the sessions; their own
// headers have the threads.
#pragma once

#include <memory>

#include "server/session/directives/callbacks.h"
#include "server/session/directives/lock_announcer.h"
#include "server/session/directives/recalls.h"

namespace dafs::server {

struct ServerDirectives {
  std::unique_ptr<Callbacks> callbacks;
  std::unique_ptr<LockAnnouncer> lock_announcer;
  std::unique_ptr<Recalls> recalls;
};

}  // namespace dafs::server
