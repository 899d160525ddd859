// Whether PERSIST locks permit I/O: their ranges are mandatory among clients.
// Spec: 4.4.1.2, 4.4.1.3, 6.5.27.
#pragma once

#include "server/store/holdings/caller.h"
#include "server/store/holdings/persistent_locks.h"
#include "server/store/holdings/undo/undo_record.h"
#include "server/store/objects/object.h"
#include "wire/protocol/status.h"

namespace dafs::server {

// LOCKED: another client has a PERSIST lock there. STALE_STATEID, or LOCKED if `has_state` is
// false: the lock is broken. Costs one load while there are no such locks.
// A LOCK awaits the I/O that it would refuse, so a writer calls this with the file's AppendLock
// held, and a reader within a ReadUnderWay. Thread-safe; does not block.
inline wire::DafsStatus CheckLocked(const PersistentLocks& locks, const Caller& caller,
                                    bool has_state, const ObjectKey& file,
                                    const PersistentLocks::Io& io) {
  if (!locks.MayConcern(file) || io.length == 0) return wire::DafsStatus::kOk;
  const wire::DafsStatus status = locks.CheckIo(caller, has_state, file, io);
  if (status == wire::DafsStatus::kStaleStateId && caller.lock_broken != nullptr) {
    *caller.lock_broken = true;
  }
  return status;
}

// The same for a change of the size to `size`, which changes the bytes between the two sizes: sets
// *change to it. Blocks on the file system.
wire::DafsStatus CheckResize(const PersistentLocks& locks, const Caller& caller, const Object& file,
                             bool has_state, uint64_t size, UndoChange* change);

}  // namespace dafs::server
