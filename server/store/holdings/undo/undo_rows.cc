#include "server/store/holdings/undo/undo_rows.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/status_macros.h"
#include "server/store/durable/database.h"
#include "server/store/durable/row_difference.h"

namespace dafs::server {

using wire::LockRange;
using wire::LockRanges;

namespace {

using RangeRow = std::tuple<int64_t, int64_t, int64_t>;  // first, last and zero of the table undo

std::vector<RangeRow> RowsOf(const UndoRecord& record) {
  std::vector<RangeRow> rows;
  const auto take = [&](const LockRanges& ranges, int64_t zero) {
    for (const LockRange& range : ranges.ranges()) {
      rows.emplace_back(static_cast<int64_t>(range.first), static_cast<int64_t>(range.last), zero);
    }
  };
  take(record.data, 0);
  take(record.zeros, 1);
  return rows;
}

absl::Status AddRanges(sqlite3* connection, int64_t id, const std::vector<RangeRow>& rows) {
  Database::Statement add(connection, "INSERT INTO undo VALUES(?1, ?2, ?3, ?4)");
  for (const auto& [first, last, zero] : rows) {
    add.Bind(1, id);
    add.Bind(2, first);
    add.Bind(3, last);
    add.Bind(4, zero);
    RETURN_IF_ERROR(add.Run());
  }
  return absl::OkStatus();
}

// Makes the ranges of the record the rows of `entry`. Writes only what differs, as LOCKU does for
// each of the ranges of an owner.
absl::Status WriteRanges(sqlite3* connection, const UndoEntry& entry) {
  std::vector<std::pair<RangeRow, int64_t>> stored;
  Database::Statement ranges(connection, "SELECT first, last, zero, rowid FROM undo WHERE id = ?1");
  ranges.Bind(1, entry.id);
  while (true) {
    ASSIGN_OR_RETURN(const bool has_range, ranges.Step());
    if (!has_range) break;
    stored.emplace_back(RangeRow{ranges.Int(0), ranges.Int(1), ranges.Int(2)}, ranges.Int(3));
  }
  const RowDifference<RangeRow> difference = DifferenceOf(std::move(stored), RowsOf(entry.record));
  Database::Statement remove(connection, "DELETE FROM undo WHERE rowid = ?1");
  for (const int64_t row : difference.gone) {
    remove.Bind(1, row);
    RETURN_IF_ERROR(remove.Run());
  }
  return AddRanges(connection, entry.id, difference.added);
}

}  // namespace

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
  if (entry.record.empty()) {
    for (const char* sql :
         {"DELETE FROM undo WHERE id = ?1", "DELETE FROM undo_lock WHERE id = ?1"}) {
      Database::Statement remove(connection, sql);
      remove.Bind(1, entry.id);
      RETURN_IF_ERROR(remove.Run());
    }
    return absl::OkStatus();
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
  if (added != nullptr) return AddRanges(connection, entry.id, RowsOf(*added));
  return WriteRanges(connection, entry);
}

}  // namespace dafs::server
