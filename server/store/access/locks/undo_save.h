// Saves what a request is about to change under AUTORECOVERY locks
// (server/store/holdings/undo/undo_log.h). Spec: 4.4.1.4.
#pragma once

#include "server/store/holdings/caller.h"
#include "server/store/holdings/persistent_locks.h"
#include "server/store/holdings/undo/undo_log.h"
#include "server/store/objects/object.h"
#include "wire/protocol/status.h"

namespace dafs::server {

// The locks of a file, and where what they protect is saved. Borrowed.
struct UndoSaves {
  const PersistentLocks& locks;
  UndoLog& log;
};

// Whether SaveBefore has something to do. Without persistent and auto-recovery locks, one load.
bool MustSaveBefore(const UndoSaves& saves, const Caller& caller, const ObjectKey& file,
                    const UndoChange& change);
// Saves the old bytes before `change`. Blocks on the disk if it has something to do, and then
// leaves the thread with the server's own identity: *has_saved. Call with the file's AppendLock
// held, after CheckLocked. NOSPC: the space for old bytes is used up. IO, SERVERFAULT.
wire::DafsStatus SaveBefore(const UndoSaves& saves, const Caller& caller, Object& file,
                            const UndoChange& change, bool* has_saved);
// Whether any client has such a lock on bytes from `first` on.
bool HasRecoveringFrom(const UndoSaves& saves, const Caller& caller, const ObjectKey& file,
                       uint64_t first);

}  // namespace dafs::server
