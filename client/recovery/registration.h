// Registers the credentials of the users for which a worker sends requests.
// Spec: 3.1.1.2, 6.2.8 (REGISTER_CRED), 6.2.9 (RELEASE_CRED).
// Belongs to the thread of its loop. Nothing blocks.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/state/client.h"
#include "client/state/records/identity.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "runtime/loop/wait_list.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class SessionKeeper;

class Registration {
 public:
  // All must outlive this.
  Registration(Client& client, Loop& loop, SessionKeeper& session_keeper)
      : client_(client), session_keeper_(session_keeper), turn_(loop) {}

  // Sends REGISTER_CRED for `user` and stores the handle in Client::credentials. Also returns OK if
  // the session was lost or another registration came first: the caller looks the handle up again.
  // Errors: kDeadlineExceeded, kCancelled.
  Task<absl::Status> Register(const Identity& user, absl::Time deadline);

  void Shutdown() { turn_.WakeAll(absl::CancelledError("the mount ends")); }

 private:
  // The client and the number of handles that its server keeps.
  struct Room {
    wire::ClientId client_id;
    uint32_t most = 1;
  };
  Task<absl::Status> RegisterNow(const Identity& user, absl::Time deadline);
  Task<void> Store(const Identity& user, const wire::CredHandle& handle, Room room,
                   absl::Time deadline);
  void UseOwnCredential(const Identity& user, Room room, wire::DafsStatus refused);
  Task<void> Release(const wire::CredHandle& handle, absl::Time deadline);

  Client& client_;
  SessionKeeper& session_keeper_;
  WaitList turn_;
  bool busy_ = false;
};

}  // namespace dafs::client
