// The part of PersistentLocks that reads and writes the table plock of the database.
#include <algorithm>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/store/durable/row_difference.h"
#include "server/store/holdings/persistent_locks.h"

namespace dafs::server {

using wire::LockRange;

namespace {

// The columns of the table plock after the key: client, verifier, owner, first, last, write, broken
// and kind.
using LockRow =
    std::tuple<std::string, std::string, std::string, int64_t, int64_t, int64_t, int64_t, int64_t>;

std::string BlobOf(std::span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

LockRow RowOf(const LockHolder& holder, const LockRange& range, int64_t row, int64_t kind) {
  return {holder.client_name,
          BlobOf(holder.verifier.bytes),
          holder.owner,
          static_cast<int64_t>(range.first),
          static_cast<int64_t>(range.last),
          range.write ? 1 : 0,
          row,
          kind};
}

// Makes `wanted` the rows of the file. Reads all that it has, and writes only what differs: the
// holder of many locks would otherwise write all of them for each further one.
absl::Status WriteRows(sqlite3* connection, const ObjectKey& key, std::vector<LockRow> wanted) {
  std::vector<std::pair<LockRow, int64_t>> stored;
  Database::Statement rows(connection,
                           "SELECT client, verifier, owner, first, last, write, broken, kind, "
                           "rowid FROM plock WHERE key = ?1");
  rows.Bind(1, key.bytes);
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) break;
    stored.emplace_back(LockRow{rows.BlobText(0), rows.BlobText(1), rows.BlobText(2), rows.Int(3),
                                rows.Int(4), rows.Int(5), rows.Int(6), rows.Int(7)},
                        rows.Int(8));
  }
  const RowDifference<LockRow> difference = DifferenceOf(std::move(stored), std::move(wanted));
  Database::Statement remove(connection, "DELETE FROM plock WHERE rowid = ?1");
  for (const int64_t row : difference.gone) {
    remove.Bind(1, row);
    RETURN_IF_ERROR(remove.Run());
  }
  Database::Statement add(connection,
                          "INSERT INTO plock VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
  for (const auto& [client, verifier, owner, first, last, write, row, kind] : difference.added) {
    add.Bind(1, key.bytes);
    add.BindBlob(2, client);
    add.BindBlob(3, verifier);
    add.BindBlob(4, owner);
    add.Bind(5, first);
    add.Bind(6, last);
    add.Bind(7, write);
    add.Bind(8, row);
    add.Bind(9, kind);
    RETURN_IF_ERROR(add.Run());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PersistentLocks::Load() {
  const absl::StatusOr<bool> exists = database_.OpenExisting();
  if (!exists.ok()) return database_.Unreadable(exists.status());
  if (!*exists) return absl::OkStatus();
  absl::flat_hash_map<ObjectKey, File> files;
  size_t broken = 0;
  const absl::Status status = database_.Transact([&](sqlite3* connection) -> absl::Status {
    Database::Statement rows(
        connection,
        "SELECT key, client, verifier, owner, first, last, write, broken, kind FROM plock");
    while (true) {
      ASSIGN_OR_RETURN(const bool has_row, rows.Step());
      if (!has_row) return absl::OkStatus();
      ObjectKey key;
      Holder holder;
      if (rows.Blob(0).size() != key.bytes.size() ||
          rows.Blob(2).size() != holder.verifier.bytes.size()) {
        return absl::FailedPreconditionError("a row of the table plock is damaged");
      }
      std::copy(rows.Blob(0).begin(), rows.Blob(0).end(), key.bytes.begin());
      holder.client_name = rows.BlobText(1);
      std::copy(rows.Blob(2).begin(), rows.Blob(2).end(), holder.verifier.bytes.begin());
      holder.owner = rows.BlobText(3);
      const LockRange range{static_cast<uint64_t>(rows.Int(4)), static_cast<uint64_t>(rows.Int(5)),
                            rows.Int(6) != 0};
      const auto kind = static_cast<uint8_t>(rows.Int(8));
      if (range.first > range.last || kind == 0 || kind > (kPersists | kRecovers)) {
        return absl::FailedPreconditionError("a row of the table plock is damaged");
      }
      File& file = files[key];
      switch (rows.Int(7)) {
        case kHeldRow: {
          const auto held = std::find_if(file.held.begin(), file.held.end(), [&](const Held& each) {
            return each.holder == holder && each.kind == kind;
          });
          (held != file.held.end() ? *held
                                   : file.held.emplace_back(Held{std::move(holder), {}, {}, kind}))
              .ranges.Set(range);
          break;
        }
        case kUndoingRow:
          file.undoing.push_back({std::move(holder), range});
          break;
        default:
          file.broken.push_back({std::move(holder), range, std::nullopt});
          ++broken;
      }
    }
  });
  if (!status.ok()) return database_.Unreadable(status);
  if (broken > 0) {
    LogNotice(absl::StrCat(broken, broken == 1 ? " lock is" : " locks are",
                           " broken: what their clients were changing is unfinished, and reads and "
                           "writes there are refused until a client repairs it"));
  }
  for (auto& [key, file] : files) Put(key, std::move(file));
  if (!UndoingFiles().empty()) Wake();
  return absl::OkStatus();
}

absl::Status PersistentLocks::Write(const ObjectKey& key, const File& file, Extra extra) {
  std::vector<LockRow> wanted;
  for (const Held& held : file.held) {
    for (const LockRange& range : held.ranges.ranges()) {
      wanted.push_back(RowOf(held.holder, range, kHeldRow, held.kind));
    }
  }
  for (const Broken& each : file.broken) {
    wanted.push_back(RowOf(each.holder, each.range, kBrokenRow, kPersists));
  }
  for (const Undo& each : file.undoing) {
    if (!each.by_abort) wanted.push_back(RowOf(each.holder, each.range, kUndoingRow, kRecovers));
  }
  return database_.Transact([&](sqlite3* connection) -> absl::Status {
    RETURN_IF_ERROR(WriteRows(connection, key, std::move(wanted)));
    return extra(connection);
  });
}

}  // namespace dafs::server
