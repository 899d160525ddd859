// Notifies clients that a lock for which they wait can be granted now (WIRE 9.6, BC_LOCK_FREE).
// Thread-safe; nothing blocks.
#pragma once

#include <functional>
#include <utility>

#include "server/store/holdings/locks/lock_table.h"
#include "server/store/objects/handle.h"
#include "wire/messages/promises.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class LockNotices {
 public:
  // Both are borrowed.
  LockNotices(LockTable& locks, const HandleMac& mac) : locks_(locks), mac_(mac) {}

  // Sets how waiting clients are notified that a lock can be granted. `send` returns at once: false
  // if it cannot reach the client. Call before the first request. `send` outlives all requests.
  using Send =
      std::function<bool(const wire::ClientId& client_id, const wire::BcLockFreeArgs& args)>;
  void SetSend(Send send) { send_ = std::move(send); }

  // Sends BC_LOCK_FREE for locks that can be granted now. Call after changes of the table, without
  // a lock of a file. Cheap if no such change concerned a waiter.
  void SendDue() {
    if (locks_.has_turns()) SendTurns();
  }
  // The client can no longer be reached: it loses its places in the queues until it requests its
  // locks again.
  void DropAwaiting(const wire::ClientId& client_id);

 private:
  void SendTurns();

  LockTable& locks_;
  const HandleMac& mac_;
  Send send_;  // null: no client can be notified
};

// Calls SendDue at the end of a scope. Declare it before the file's lock is taken: then nothing is
// sent while that is held.
class LockNoticesAtExit {
 public:
  explicit LockNoticesAtExit(LockNotices& notices) : notices_(notices) {}
  ~LockNoticesAtExit() { notices_.SendDue(); }
  LockNoticesAtExit(const LockNoticesAtExit&) = delete;
  LockNoticesAtExit& operator=(const LockNoticesAtExit&) = delete;

 private:
  LockNotices& notices_;
};

}  // namespace dafs::server
