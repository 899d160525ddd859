// The rows of the undo log (undo_log.h) in the database: the table undo_lock has an entry for each
// owner that has changed a file under AUTORECOVERY locks, and the table undo the ranges of its
// record. Called within a transaction of Database; blocks on the disk.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/store/holdings/locks/lock_holder.h"
#include "server/store/holdings/undo/undo_record.h"
#include "server/store/objects/handle.h"

struct sqlite3;

namespace dafs::server {

struct UndoEntry {
  LockHolder holder;
  int64_t id = 0;  // of the undo file
  UndoRecord record;
};

// Calls `take` for each entry. kFailedPrecondition: a row is damaged. Other errors: Database.
absl::Status ReadUndoEntries(sqlite3* connection,
                             absl::FunctionRef<void(const ObjectKey& file, UndoEntry entry)> take);
// Writes the rows of `entry`, instead of those that it has: of the ranges only those of `added`,
// which come on top; null: all. An empty record has no rows.
absl::Status WriteUndoEntry(sqlite3* connection, const ObjectKey& file, const UndoEntry& entry,
                            const UndoRecord* added = nullptr);

}  // namespace dafs::server
