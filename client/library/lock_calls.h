// Locks of byte ranges of open files, of all kinds: ordinary, PERSIST and AUTORECOVERY.
// Spec: 4.4.1.2 to 4.4.1.6, 6.5.18 to 6.5.20.
//
// An open file (IoFile) is a lock owner of its own. Every call blocks and turns the loop; it
// belongs to the thread of its session. Errors name the server, the export, the call and the file.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/files/files.h"
#include "client/library/io_file.h"
#include "client/state/lock_answer.h"
#include "client/state/records/identity.h"
#include "wire/protocol/lock_ranges.h"

namespace dafs::client {

// The bytes `offset` to `offset` + `length` - 1; a length of wire::kLockToEnd extends to the end of
// the file. `write`: exclusive, which needs an open for writing.
struct FileLock {
  uint64_t offset = 0;
  uint64_t length = wire::kLockToEnd;
  bool write = true;
  LockOptions options;
};

class LockCalls {
 public:
  // Both outlive it.
  LockCalls(Files& files, const Identity& user) : files_(files), user_(user) {}

  // Requests the lock, for at most `wait`. The outcome is kGranted; kDenied: another owner held it
  // all that time; kDeadlock. LOCK_BROKEN: the client that held it has failed; a lock with
  // `options.repair` takes it over. kInvalidArgument: the range is empty or too long.
  absl::StatusOr<LockOutcome> Lock(const IoFile& file, const FileLock& lock,
                                   absl::Duration wait = absl::ZeroDuration());
  // A lock of another owner that conflicts; nullopt: none. Breaks no lock. LOCK_BROKEN as in Lock.
  absl::StatusOr<std::optional<LockConflict>> Test(const IoFile& file, const FileLock& lock);
  // Releases the range. Makes what was written stable first. OK also if nothing was held.
  absl::Status Unlock(const IoFile& file, uint64_t offset, uint64_t length);
  // Undoes what was written under an AUTORECOVERY lock of the range; the lock stays held.
  absl::Status Abort(const IoFile& file, const FileLock& lock);

 private:
  Files& files_;
  const Identity& user_;
};

}  // namespace dafs::client
