// The part of PersistentLocks that reads and writes the table plock of the database.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/store/holdings/persistent_locks.h"

namespace dafs::server {

using wire::LockRange;

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
  return database_.Transact([&](sqlite3* connection) -> absl::Status {
    Database::Statement clear(connection, "DELETE FROM plock WHERE key = ?1");
    clear.Bind(1, key.bytes);
    RETURN_IF_ERROR(clear.Run());
    Database::Statement add(connection,
                            "INSERT INTO plock VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
    const auto insert = [&](const Holder& holder, const LockRange& range, Row row,
                            uint8_t kind = kPersists) {
      add.Bind(1, key.bytes);
      add.BindBlob(2, holder.client_name);
      add.Bind(3, holder.verifier.bytes);
      add.BindBlob(4, holder.owner);
      add.Bind(5, static_cast<int64_t>(range.first));
      add.Bind(6, static_cast<int64_t>(range.last));
      add.Bind(7, range.write ? 1 : 0);
      add.Bind(8, row);
      add.Bind(9, kind);
      return add.Run();
    };
    for (const Held& held : file.held) {
      for (const LockRange& range : held.ranges.ranges()) {
        RETURN_IF_ERROR(insert(held.holder, range, kHeldRow, held.kind));
      }
    }
    for (const Broken& each : file.broken) {
      RETURN_IF_ERROR(insert(each.holder, each.range, kBrokenRow));
    }
    for (const Undo& each : file.undoing) {
      if (!each.by_abort) RETURN_IF_ERROR(insert(each.holder, each.range, kUndoingRow, kRecovers));
    }
    return extra(connection);
  });
}

}  // namespace dafs::server
