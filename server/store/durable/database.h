// The database `locks.db` of the state directory, for state that changes a few times a second, must
// change as a whole, and must survive a power failure whatever --stable is: fencing lists and
// PERSIST locks. State that changes with every request is in mapped files instead
// (server/store/system/mapped_file.h). SQLite, with a write-ahead log and synchronous=FULL. An
// administrator may read it with sqlite3(1).
//
// Thread-safe. Every function blocks on the disk and leaves the calling thread with the server's
// own identity. One transaction at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

struct sqlite3;
struct sqlite3_stmt;

namespace dafs::server {

class Database {
 public:
  // One prepared statement. `sql` has its parameters as ?1, ?2, ...
  class Statement {
   public:
    Statement(sqlite3* connection, std::string_view sql);
    ~Statement();
    Statement(const Statement&) = delete;
    Statement& operator=(const Statement&) = delete;

    // Parameters count from 1. The bytes are copied.
    void Bind(int parameter, int64_t value);
    void Bind(int parameter, std::string_view text);
    void Bind(int parameter, std::span<const uint8_t> blob);
    void BindBlob(int parameter, std::string_view bytes);
    // Returns true if there is a row, false after the last. Errors: see Transact.
    absl::StatusOr<bool> Step();
    // Executes it for the next parameters, without a row.
    absl::Status Run();

    // Values of the current row; columns count from 0. Valid until the next Step.
    int64_t Int(int column) const;
    std::string_view Text(int column) const;
    std::span<const uint8_t> Blob(int column) const;
    std::string_view BlobText(int column) const;

   private:
    sqlite3* const connection_;
    sqlite3_stmt* statement_ = nullptr;  // null if it could not be prepared: Step returns why
  };

  // `state_dir` exists. Opens nothing yet.
  explicit Database(const std::string& state_dir);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& path() const { return path_; }
  // The error `why` of reading it at the start, with its path and the remedy.
  absl::Status Unreadable(const absl::Status& why) const;

  // Opens the database if there is one. Returns false if there is none: no transaction has been
  // made yet. Errors: kFailedPrecondition, also for a damaged database and for one of a later
  // version. Callers return Unreadable of it.
  absl::StatusOr<bool> OpenExisting() ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs `work` in a transaction, and makes that durable before it returns OK. Creates the database
  // if there is none. On an error nothing has changed. Errors: those of `work`; kResourceExhausted
  // if the disk is full; kFailedPrecondition.
  absl::Status Transact(absl::FunctionRef<absl::Status(sqlite3*)> work) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Open(bool create) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Prepare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Execute(const char* sql) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  absl::Mutex mutex_;
  sqlite3* connection_ ABSL_GUARDED_BY(mutex_) = nullptr;  // null: not open
};

}  // namespace dafs::server
