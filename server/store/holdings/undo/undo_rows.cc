#include "server/store/holdings/undo/undo_rows.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/status_macros.h"
#include "server/store/durable/database.h"

namespace dafs::server {

using wire::LockRange;
using wire::LockRanges;

absl::Status ReadUndoEntries(sqlite3* connection,
                             absl::FunctionRef<void(const ObjectKey& file, UndoEntry entry)> take) {
  Database::Statement rows(
      connection, "SELECT id, key, client, verifier, owner, old_size, floor FROM undo_lock");
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return absl::OkStatus();
    ObjectKey key;
    UndoEntry entry;
    if (rows.Blob(1).size() != key.bytes.size() ||
        rows.Blob(3).size() != entry.holder.verifier.bytes.size()) {
      return absl::FailedPreconditionError("a row of the table undo_lock is damaged");
    }
    std::copy(rows.Blob(1).begin(), rows.Blob(1).end(), key.bytes.begin());
    entry.id = rows.Int(0);
    entry.holder.client_name = rows.BlobText(2);
    std::copy(rows.Blob(3).begin(), rows.Blob(3).end(), entry.holder.verifier.bytes.begin());
    entry.holder.owner = rows.BlobText(4);
    if (rows.Int(5) >= 0) {
      entry.record.size = {static_cast<uint64_t>(rows.Int(5)), static_cast<uint64_t>(rows.Int(6))};
    }
    Database::Statement ranges(connection, "SELECT first, last, zero FROM undo WHERE id = ?1");
    ranges.Bind(1, entry.id);
    while (true) {
      ASSIGN_OR_RETURN(const bool has_range, ranges.Step());
      if (!has_range) break;
      if (ranges.Int(0) < 0 || ranges.Int(0) > ranges.Int(1)) {
        return absl::FailedPreconditionError("a row of the table undo is damaged");
      }
      (ranges.Int(2) != 0 ? entry.record.zeros : entry.record.data)
          .Set({static_cast<uint64_t>(ranges.Int(0)), static_cast<uint64_t>(ranges.Int(1)),
                /*write=*/true});
    }
    take(key, std::move(entry));
  }
}

absl::Status WriteUndoEntry(sqlite3* connection, const ObjectKey& file, const UndoEntry& entry,
                            const UndoRecord* added) {
  if (added == nullptr) {
    Database::Statement clear(connection, "DELETE FROM undo WHERE id = ?1");
    clear.Bind(1, entry.id);
    RETURN_IF_ERROR(clear.Run());
  }
  if (entry.record.empty()) {
    Database::Statement remove(connection, "DELETE FROM undo_lock WHERE id = ?1");
    remove.Bind(1, entry.id);
    return remove.Run();
  }
  Database::Statement lock(connection,
                           "INSERT OR REPLACE INTO undo_lock VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)");
  lock.Bind(1, entry.id);
  lock.Bind(2, file.bytes);
  lock.BindBlob(3, entry.holder.client_name);
  lock.Bind(4, entry.holder.verifier.bytes);
  lock.BindBlob(5, entry.holder.owner);
  const std::optional<UndoRecord::Size>& size = entry.record.size;
  lock.Bind(6, size ? static_cast<int64_t>(size->old_size) : -1);
  lock.Bind(7, size ? static_cast<int64_t>(size->floor) : 0);
  RETURN_IF_ERROR(lock.Run());
  Database::Statement add(connection, "INSERT INTO undo VALUES(?1, ?2, ?3, ?4)");
  const auto insert = [&](const LockRanges& ranges, bool zero) -> absl::Status {
    for (const LockRange& range : ranges.ranges()) {
      add.Bind(1, entry.id);
      add.Bind(2, static_cast<int64_t>(range.first));
      add.Bind(3, static_cast<int64_t>(range.last));
      add.Bind(4, zero ? 1 : 0);
      RETURN_IF_ERROR(add.Run());
    }
    return absl::OkStatus();
  };
  const UndoRecord& rows = added != nullptr ? *added : entry.record;
  RETURN_IF_ERROR(insert(rows.data, false));
  return insert(rows.zeros, true);
}

}  // namespace dafs::server
