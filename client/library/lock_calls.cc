#include "client/library/lock_calls.h"

#include <memory>
#include <utility>

#include "client/files/opens/lock_wait.h"
#include "client/library/call_name.h"
#include "client/state/opens.h"
#include "runtime/loop/run.h"

namespace dafs::client {
namespace {

absl::StatusOr<wire::LockRange> RangeOf(uint64_t offset, uint64_t length, bool write) {
  if (length == 0) return absl::InvalidArgumentError("a range of no bytes");
  if (length != wire::kLockToEnd && length - 1 > UINT64_MAX - offset) {
    return absl::InvalidArgumentError("a range that ends after the last offset");
  }
  if (offset == wire::kFlockByte) {
    return absl::InvalidArgumentError("a range that begins after the last byte of any file");
  }
  return wire::LockRangeOf(offset, length, write ? wire::LockType::kWrite : wire::LockType::kRead);
}

LockOwner OwnerOf(const IoFile& file) { return {file.handle, file.state_id}; }

}  // namespace

absl::StatusOr<LockOutcome> LockCalls::Lock(const IoFile& file, const FileLock& lock,
                                            absl::Duration wait) {
  absl::StatusOr<wire::LockRange> range = RangeOf(lock.offset, lock.length, lock.write);
  if (!range.ok()) return NameCall(files_, "lock", file.name, range.status());
  LockWait waiting(files_.loop(), nullptr);
  const bool waits = wait > absl::ZeroDuration();
  Loop::TimerId timer = 0;
  if (waits && wait < absl::InfiniteDuration()) {
    timer = files_.loop().RunAfter(wait, [&waiting] { waiting.Cancel(); });
  }
  absl::StatusOr<LockAnswer> answer = RunUntilDone(
      files_.loop(),
      files_.locks().Lock(user_, OwnerOf(file), *range, waits ? &waiting : nullptr, lock.options));
  if (timer != 0) files_.loop().Cancel(timer);
  if (!answer.ok()) return NameCall(files_, "lock", file.name, answer.status());
  return answer->outcome == LockOutcome::kCancelled ? LockOutcome::kDenied : answer->outcome;
}

absl::StatusOr<std::optional<LockConflict>> LockCalls::Test(const IoFile& file,
                                                            const FileLock& lock) {
  absl::StatusOr<wire::LockRange> range = RangeOf(lock.offset, lock.length, lock.write);
  if (!range.ok()) return NameCall(files_, "test a lock of", file.name, range.status());
  const std::shared_ptr<const OpenInfo> open = files_.opens().InfoOf(file.state_id);
  if (open == nullptr) {
    return NameCall(files_, "test a lock of", file.name, absl::AbortedError("the file was closed"));
  }
  return NameCall(files_, "test a lock of", file.name,
                  RunUntilDone(files_.loop(),
                               files_.locks().TestLock(user_, file.handle, open->owner, *range)));
}

absl::Status LockCalls::Unlock(const IoFile& file, uint64_t offset, uint64_t length) {
  absl::StatusOr<wire::LockRange> range = RangeOf(offset, length, true);
  if (!range.ok()) return NameCall(files_, "unlock", file.name, range.status());
  return NameCall(files_, "unlock", file.name,
                  RunUntilDone(files_.loop(), files_.locks().Unlock(user_, OwnerOf(file),
                                                                    range->first, range->last)));
}

absl::Status LockCalls::Abort(const IoFile& file, const FileLock& lock) {
  absl::StatusOr<wire::LockRange> range = RangeOf(lock.offset, lock.length, lock.write);
  if (!range.ok()) return NameCall(files_, "abort a lock of", file.name, range.status());
  return NameCall(files_, "abort a lock of", file.name,
                  RunUntilDone(files_.loop(), files_.locks().Abort(user_, OwnerOf(file), *range)));
}

}  // namespace dafs::client
