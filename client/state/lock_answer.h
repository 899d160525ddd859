// What came of asking for a lock, or about one. Values.
// Spec: 4.4.1.2, 6.5.18, 6.5.19.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/protocol/attributes.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/types.h"

namespace dafs::client {

enum class LockOutcome : uint8_t {
  kGranted,
  kDenied,     // another owner holds what stands in the way
  kCancelled,  // LockWait::Cancel, and not granted before
  kDeadlock,   // whoever holds what stands in the way waits for something this process holds
};

struct LockAnswer {
  LockOutcome outcome = LockOutcome::kGranted;
  std::vector<wire::LockRange> before;  // granted: what the owner held in the range till then
  // What the file is like under the lock; nothing valid in it if that could not be had.
  wire::FileAttributes attributes;
  wire::ClientId client_id;  // in whose time the server granted it
};

// Who stands in the way of a lock.
struct LockConflict {
  bool ours = false;  // an owner of this client
  std::string owner;  // as its OPEN named it; empty: a program of the server
  wire::LockRange range;
};

}  // namespace dafs::client
