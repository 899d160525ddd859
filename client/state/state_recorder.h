// Where a client keeps a record of its opens, locks, credentials and delegations while it works,
// for a program that continues it after this one was killed (docs/restart.md). Each table below
// calls it at every change, under its mutex, with the slot in which the item was recorded before.
//
// An implementation must not block, nor call a table. Any thread.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "client/state/identity.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/types.h"

namespace dafs::client {

struct OpenInfo;

class StateRecorder {
 public:
  // Where an item is recorded; 0: nowhere.
  using Slot = uint32_t;

  virtual ~StateRecorder() = default;

  // An entry of Opens.
  struct Open {
    const wire::StateId& name;
    const OpenInfo& info;
    const wire::StateId& state_id;
    const wire::ClientId& client_id;
    bool is_local = false;
    const absl::Status& lost;
  };
  virtual Slot PutOpen(const Open& open, Slot before) = 0;

  // All locks of an open. `is_local`: the server does not know them.
  struct HeldLocks {
    const wire::FileHandle& file;
    const wire::StateId& open;
    uint64_t process = 0;
    bool is_local = false;
    std::span<const wire::LockRange> ranges;
  };
  virtual Slot PutLocks(const HeldLocks& locks, Slot before) = 0;

  virtual Slot PutCredential(const wire::ClientId& client_id, const Identity& who,
                             const wire::CredHandle& handle) = 0;

  // A delegation that is not returned yet. `was_write`: perhaps at some time only.
  struct HeldDelegation {
    uint64_t number = 0;
    const wire::FileHandle& file;
    const wire::StateId& state_id;
    const wire::ClientId& client_id;
    const Identity& who;
    bool was_write = false;
  };
  virtual Slot PutDelegation(const HeldDelegation& delegation, Slot before) = 0;

  // The item has ended. 0: nothing.
  virtual void Drop(Slot slot) = 0;
};

}  // namespace dafs::client
