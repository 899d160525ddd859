#include "server/store/procedures/shared/release_recorded.h"

#include <optional>

#include "server/store/parts/store_parts.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/kill_switch.h"
#include "wire/protocol/procedures.h"

namespace dafs::server {

using wire::DafsStatus;

DafsStatus ReleaseRecorded(StoreParts& store, const wire::ClientId& client_id, ObjectRef file,
                           const ObjectKey& key, const std::string& owner,
                           const wire::LockRange& range) {
  const auto without_undo = [&] {
    return store.persistent_locks.Release(client_id, key, owner, range.first, range.last,
                                          [](sqlite3*) { return absl::OkStatus(); });
  };
  const std::optional<PersistentLocks::Recovering> recovering =
      store.persistent_locks.RecoveringOf(client_id, key, owner);
  if (!recovering || recovering->ranges.FindConflict(range) == nullptr) {
    return without_undo();
  }
  if (file == nullptr) file = store.cache.Find(key);
  if (file == nullptr) {
    const DafsStatus opened = store.objects.Open(store.mac.Seal(key), &file);
    if (opened == DafsStatus::kStale) return without_undo();  // its records are dropped later
    if (opened != DafsStatus::kOk) return opened;
  }
  wire::LockRanges kept = recovering->ranges;
  kept.Clear(range.first, range.last);
  // Most of it before writers have to wait.
  if (int error = store.undo_log.Sync(*file); error != 0) return StatusFromErrno(error);
  absl::MutexLock writers(&store.object_locks.AppendLock(key));
  UndoLog::Change change;
  const int error = store.undo_log.Commit(*file, recovering->holder, FileBytes(kept), &change);
  if (error != 0) return StatusFromErrno(error);
  const DafsStatus status = store.persistent_locks.Release(
      client_id, key, owner, range.first, range.last,
      [&](sqlite3* connection) { return store.undo_log.Write(connection, &change); });
  if (status != DafsStatus::kOk) return status;
  KillPoint(KillStep::kUndoDeleted, wire::Proc::kLocku);
  store.undo_log.Finish(file->fs(), change);
  return DafsStatus::kOk;
}

}  // namespace dafs::server
