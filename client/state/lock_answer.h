// Results of lock requests and lock tests. Values.
// Spec: 4.4.1.2, 6.5.18, 6.5.19.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/state/node.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// Kinds of lock beyond an ordinary one. Such a lock is always taken at the server.
struct LockOptions {
  bool persist = false;  // if the client fails, it is broken, not released (4.4.1.3)
  // If the client fails, its changes under the lock are undone (4.4.1.4).
  bool auto_recovery = false;
  bool repair = false;  // takes broken locks in the range over; INVAL if there is none

  bool any() const { return persist || auto_recovery || repair; }
};

enum class LockOutcome : uint8_t {
  kGranted,
  kDenied,     // another owner holds a conflicting lock
  kCancelled,  // cancelled by LockWait::Cancel before it was granted
  kDeadlock,   // the process would wait for a lock of its own, perhaps through other waiters
};

struct LockAnswer {
  LockOutcome outcome = LockOutcome::kGranted;
  std::vector<wire::LockRange> before;  // if granted: the owner's earlier locks in the range
  // The file's attributes, read under the lock. Nothing in them is valid if they could not be read.
  Attributes attributes;
  wire::ClientId client_id;  // the client_id under which the server granted it
  // Granted or denied under a delegation: no request was sent, and there are no attributes.
  bool is_local = false;
  // If denied: a client holds the conflicting lock, or waits for it. Otherwise a program on the
  // server holds it.
  bool by_client = false;
};

// The holder of a conflicting lock.
struct LockConflict {
  bool ours = false;  // an owner of this client
  std::string owner;  // as in its OPEN; empty: a program on the server
  wire::LockRange range;
};

}  // namespace dafs::client
