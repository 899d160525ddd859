#include "server/store/durable/database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/files/unique_fd.h"
#include "runtime/status_macros.h"
#include "server/store/system/identity.h"

namespace dafs::server {
namespace {

// PRAGMA user_version of the tables in kTables.
constexpr int64_t kVersion = 3;  // 1 had no plock, 2 no auto-recovery locks

constexpr char kTables[] =
    "CREATE TABLE IF NOT EXISTS fence("
    "  kind INTEGER NOT NULL,"  // wire::FenceObject
    "  key BLOB NOT NULL,"      // the ObjectKey of a file, the FsHandle of a file system
    "  id TEXT NOT NULL,"
    "  PRIMARY KEY(kind, key, id)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS plock("
    "  key BLOB NOT NULL,"                 // the ObjectKey of the file
    "  client BLOB NOT NULL,"              // its client_id_string
    "  verifier BLOB NOT NULL,"            // of the instance of the client
    "  owner BLOB NOT NULL,"               // as OPEN named it
    "  first INTEGER NOT NULL,"            // bytes; those from 2^63 on are negative
    "  last INTEGER NOT NULL,"             // inclusive
    "  write INTEGER NOT NULL,"            // 1: exclusive
    "  broken INTEGER NOT NULL,"           // PersistentLocks::Row
    "  kind INTEGER NOT NULL DEFAULT 1);"  // PersistentLocks::Kind
    "CREATE INDEX IF NOT EXISTS plock_key ON plock(key);"
    "CREATE TABLE IF NOT EXISTS undo_lock("
    "  id INTEGER PRIMARY KEY,"  // of the undo file
    "  key BLOB NOT NULL,"       // the ObjectKey of the file
    "  client BLOB NOT NULL,"    // the owner of the lock, as in plock
    "  verifier BLOB NOT NULL,"
    "  owner BLOB NOT NULL,"
    "  old_size INTEGER NOT NULL,"  // of the file; -1: the lock has not changed it
    "  floor INTEGER NOT NULL);"    // UndoRecord::Size
    "CREATE TABLE IF NOT EXISTS undo("
    "  id INTEGER NOT NULL,"
    "  first INTEGER NOT NULL,"  // bytes
    "  last INTEGER NOT NULL,"   // inclusive
    "  zero INTEGER NOT NULL);"  // 1: they were zeros, or did not exist
    "CREATE INDEX IF NOT EXISTS undo_id ON undo(id)";

// Version 2 had the table without the last column.
constexpr char kFromTwo[] = "ALTER TABLE plock ADD COLUMN kind INTEGER NOT NULL DEFAULT 1";

absl::Status StatusOf(sqlite3* connection) {
  const std::string why = sqlite3_errmsg(connection);
  return sqlite3_errcode(connection) == SQLITE_FULL ? absl::ResourceExhaustedError(why)
                                                    : absl::FailedPreconditionError(why);
}

}  // namespace

// ---- Statements --------------------------------------------------------------------------------

Database::Statement::Statement(sqlite3* connection, std::string_view sql)
    : connection_(connection) {
  sqlite3_prepare_v2(connection, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr);
}

Database::Statement::~Statement() { sqlite3_finalize(statement_); }

void Database::Statement::Bind(int parameter, int64_t value) {
  sqlite3_bind_int64(statement_, parameter, value);
}

void Database::Statement::Bind(int parameter, std::string_view text) {
  sqlite3_bind_text(statement_, parameter, text.data(), static_cast<int>(text.size()),
                    SQLITE_TRANSIENT);
}

void Database::Statement::Bind(int parameter, std::span<const uint8_t> blob) {
  sqlite3_bind_blob(statement_, parameter, blob.data(), static_cast<int>(blob.size()),
                    SQLITE_TRANSIENT);
}

void Database::Statement::BindBlob(int parameter, std::string_view bytes) {
  Bind(parameter, std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
}

absl::StatusOr<bool> Database::Statement::Step() {
  if (statement_ == nullptr) return StatusOf(connection_);
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  return StatusOf(connection_);
}

absl::Status Database::Statement::Run() {
  RETURN_IF_ERROR(Step().status());
  sqlite3_reset(statement_);
  return absl::OkStatus();
}

int64_t Database::Statement::Int(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::string_view Database::Statement::Text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, column));
  return text == nullptr ? std::string_view() : std::string_view(text, size);
}

std::span<const uint8_t> Database::Statement::Blob(int column) const {
  const auto* bytes = static_cast<const uint8_t*>(sqlite3_column_blob(statement_, column));
  return {bytes,
          bytes == nullptr ? 0 : static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

std::string_view Database::Statement::BlobText(int column) const {
  const std::span<const uint8_t> bytes = Blob(column);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// ---- The database ------------------------------------------------------------------------------

Database::Database(const std::string& state_dir) : path_(absl::StrCat(state_dir, "/locks.db")) {}

Database::~Database() {
  RestoreOwnIdentity();
  sqlite3_close(connection_);
}

absl::Status Database::Unreadable(const absl::Status& why) const {
  return absl::Status(
      why.code(),
      absl::StrCat(path_, ": ", why.message(),
                   absl::IsResourceExhausted(why)
                       ? "; free some space on its file system"
                       : "; it says which clients are fenced off, which locks are broken and which "
                         "changes are to be undone: restore it from a backup, or remove it to "
                         "discard these records"));
}

absl::StatusOr<bool> Database::OpenExisting() {
  RestoreOwnIdentity();
  if (access(path_.c_str(), F_OK) != 0 && errno == ENOENT) return false;
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Open(/*create=*/false));
  return true;
}

absl::Status Database::Transact(absl::FunctionRef<absl::Status(sqlite3*)> work) {
  RestoreOwnIdentity();
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Open(/*create=*/true));
  RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  absl::Status status = work(connection_);
  if (status.ok()) status = Execute("COMMIT");
  // Some errors have rolled back already.
  if (!status.ok()) sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
  return status;
}

absl::Status Database::Open(bool create) {
  if (connection_ != nullptr) return absl::OkStatus();
  // Created here, so that other users cannot read it. SQLite gives its other files the same mode.
  if (create) {
    const UniqueFd fd(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd.valid()) {
      const int error = errno;
      return error == ENOSPC || error == EDQUOT
                 ? absl::ResourceExhaustedError(std::strerror(error))
                 : absl::FailedPreconditionError(std::strerror(error));
    }
  }
  absl::Status status;
  if (sqlite3_open_v2(path_.c_str(), &connection_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                      nullptr) == SQLITE_OK) {
    status = Prepare();
  } else {
    status = StatusOf(connection_);
  }
  if (status.ok()) return status;
  sqlite3_close(connection_);
  connection_ = nullptr;
  return status;
}

absl::Status Database::Prepare() {
  // Another process may read it with sqlite3(1), for at most this long at a time.
  sqlite3_busy_timeout(connection_, 5000);
  RETURN_IF_ERROR(Execute("PRAGMA journal_mode=WAL"));
  RETURN_IF_ERROR(Execute("PRAGMA synchronous=FULL"));
  int64_t version = 0;
  {
    Statement statement(connection_, "PRAGMA user_version");
    ASSIGN_OR_RETURN(const bool has_row, statement.Step());
    if (has_row) version = statement.Int(0);
  }
  if (version > kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("a later dafsd has written it (version ", version, ")"));
  }
  if (version == kVersion) return absl::OkStatus();
  RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  if (version == 2) RETURN_IF_ERROR(Execute(kFromTwo));
  RETURN_IF_ERROR(Execute(kTables));
  RETURN_IF_ERROR(Execute(absl::StrCat("PRAGMA user_version=", kVersion).c_str()));
  return Execute("COMMIT");
}

absl::Status Database::Execute(const char* sql) {
  if (sqlite3_exec(connection_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) {
    return absl::OkStatus();
  }
  return StatusOf(connection_);
}

}  // namespace dafs::server
