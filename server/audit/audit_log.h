// The audit log: records of what clients and administrators did, in a file or syslog(3). A thread
// writes them, so that no request waits for a disk. Its queue is bounded: records that find no room
// are dropped, and a record in the log says how many.
// Thread-safe, unless noted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/files/unique_fd.h"
#include "server/audit/audit_options.h"

namespace dafs::server {

class AuditLog {
 public:
  // Opens the file, or makes it with mode 0600, and starts the thread. kFailedPrecondition: it
  // cannot be opened, is not a regular file, or others can write it; the message names the remedy.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const AuditOptions& options);
  ~AuditLog() { Stop(absl::InfiniteFuture()); }
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  bool Wants(AuditClass one) const { return (options_.classes & SetOf(one)) != 0; }
  const AuditOptions& options() const { return options_; }

  // Adds a record with its end of line (AuditLine::Take). Does not wait.
  void Write(const std::string& line) ABSL_LOCKS_EXCLUDED(mutex_);

  // Lets the thread open the file of this name again, for a program that has renamed it. If that
  // fails, the former one stays in use, which is logged. Later records go to the new file. Does not
  // wait.
  void Reopen() ABSL_LOCKS_EXCLUDED(mutex_);

  // Writes what waits and ends the thread. Returns false if that takes beyond `deadline`, for
  // example because the file system hangs; only _exit(2) ends the process then. One thread calls
  // this and the destructor, after the last Write.
  bool Stop(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);

  struct Counts {
    uint64_t records = 0;  // made, with those dropped
    uint64_t dropped = 0;  // without room in the queue, or that could not be written
  };
  Counts counts() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  AuditLog(const AuditOptions& options, UniqueFd file)
      : options_(options), file_(std::move(file)) {}
  void Serve() ABSL_LOCKS_EXCLUDED(mutex_);
  void OpenAgain();
  // Returns how many records were not written.
  uint64_t Put(std::string_view lines);
  absl::Status PutInFile(std::string_view lines, size_t* written) const;
  void SayDropped(uint64_t count, absl::Time now);

  const AuditOptions options_;
  mutable absl::Mutex mutex_;
  std::string queue_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  uint64_t without_room_ ABSL_GUARDED_BY(mutex_) = 0;  // not yet reported
  // The records after this many bytes of the queue belong to the file that is to be opened.
  std::optional<size_t> reopens_at_ ABSL_GUARDED_BY(mutex_);
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  // The thread's.
  UniqueFd file_;
  bool is_torn_ = false;  // the last record in the file has no end
  absl::Time said_ = absl::InfinitePast();
  uint64_t unsaid_ = 0;
  std::thread thread_;
};

}  // namespace dafs::server
