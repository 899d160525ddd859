#include "server/store/fencing/fence_records.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"

namespace dafs::server {
namespace {

// The stored key of a file system is only its FSHandle.
std::span<const uint8_t> StoredKey(const FencedObject& object) {
  const std::span<const uint8_t> bytes(object.key.bytes);
  return object.kind == wire::FenceObject::kFile ? bytes : bytes.first(sizeof(wire::FsHandle));
}

}  // namespace

absl::StatusOr<std::vector<std::pair<FencedObject, FenceList>>> FenceRecords::Load() {
  std::vector<std::pair<FencedObject, FenceList>> lists;
  const absl::StatusOr<bool> exists = database_.OpenExisting();
  if (!exists.ok()) return database_.Unreadable(exists.status());
  if (!*exists) return lists;
  const absl::Status status = database_.Transact([&](sqlite3* connection) -> absl::Status {
    // SQLite compares text by its bytes, as FenceList does.
    Database::Statement rows(connection, "SELECT kind, key, id FROM fence ORDER BY kind, key, id");
    while (true) {
      ASSIGN_OR_RETURN(const bool has_row, rows.Step());
      if (!has_row) return absl::OkStatus();
      FencedObject object;
      object.kind = static_cast<wire::FenceObject>(rows.Int(0));
      const std::span<const uint8_t> key = rows.Blob(1);
      if (!IsKnown(object.kind) || key.size() != StoredKey(object).size() || rows.Text(2).empty()) {
        return absl::FailedPreconditionError("a row of the table fence is damaged");
      }
      std::copy(key.begin(), key.end(), object.key.bytes.begin());
      if (lists.empty() || lists.back().first.key != object.key) lists.push_back({object, {}});
      lists.back().second.emplace_back(rows.Text(2));
    }
  });
  if (status.ok()) return lists;
  return database_.Unreadable(status);
}

absl::Status FenceRecords::Replace(const FencedObject& object, const FenceList& list) {
  absl::Status status = database_.Transact([&](sqlite3* connection) -> absl::Status {
    Database::Statement clear(connection, "DELETE FROM fence WHERE kind = ?1 AND key = ?2");
    clear.Bind(1, static_cast<int64_t>(object.kind));
    clear.Bind(2, StoredKey(object));
    RETURN_IF_ERROR(clear.Run());
    Database::Statement add(connection, "INSERT INTO fence(kind, key, id) VALUES(?1, ?2, ?3)");
    for (const std::string& id : list) {
      add.Bind(1, static_cast<int64_t>(object.kind));
      add.Bind(2, StoredKey(object));
      add.Bind(3, std::string_view(id));
      RETURN_IF_ERROR(add.Run());
    }
    return absl::OkStatus();
  });
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(database_.path(), ": ", status.message(),
                                   status.code() == absl::StatusCode::kResourceExhausted
                                       ? "; free some space on its file system and try again"
                                       : ""));
}

}  // namespace dafs::server
