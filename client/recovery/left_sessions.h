// Ends the sessions that a killed program of this client left
// (client/state/records/session_records.h).
#pragma once

#include "absl/status/status.h"
#include "runtime/loop/task.h"

namespace dafs::client {

class Client;
class SessionKeeper;
class WaitTracker;

// Waits until the server has ended these sessions, which a query about them makes it do. After
// OK it executes no request of the killed program any more. Call before the first request of a
// program, and before opens and locks are reclaimed. kCancelled: the mount ends. Others: the
// session of `session_keeper` was lost; call again.
// All must outlive the task. It belongs to the thread of `session_keeper`.
Task<absl::Status> EndLeftSessions(Client& client, SessionKeeper& session_keeper,
                                   WaitTracker& wait_tracker);

}  // namespace dafs::client
