// The work of a session that its responses do not wait for, as the session sees it. Batches
// (server/procedures/batches.h) implements it.
// Belongs to the session's thread; nothing blocks.
#pragma once

namespace dafs::server {

class PendingWork {
 public:
  virtual ~PendingWork() = default;  // requires !running()

  // Starts the work that may start. The session calls it whenever its last request is answered.
  virtual void Begin() = 0;
  // Reports results. The session calls it when the Back-control Channel has a credit or buffer
  // again.
  virtual void Report() = 0;
  // The session ends: drops the work that has not begun, and reports nothing any more.
  virtual void Drop() = 0;
  // While true, the session is not destroyed.
  virtual bool running() const = 0;
};

}  // namespace dafs::server
