// Ranges of a file: the private procedures ALLOCATE, SEEK and COPY_RANGE (wire/messages/ranges.h),
// by fallocate(2), lseek(2) and copy_file_range(2) of the file system.
#include "wire/messages/ranges.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "server/store/access/act_as.h"
#include "server/store/access/locks/reads_under_way.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/data_procedures.h"
#include "server/store/procedures/shared/data_access.h"
#include "server/store/system/errno_status.h"

namespace dafs::server {

using wire::AllocateMode;
using wire::DafsStatus;

namespace {

// kMostCopied limits one COPY_RANGE, so that a file system that has to move the bytes does not
// occupy a thread for minutes. Other writers of the file may proceed after each kCopiedAtOnce
// bytes.
constexpr uint64_t kMostCopied = uint64_t{128} << 20;
constexpr uint64_t kCopiedAtOnce = uint64_t{8} << 20;

int FallocateMode(AllocateMode mode) {
  switch (mode) {
    case AllocateMode::kAllocate:
      return 0;
    case AllocateMode::kAllocateKeepSize:
      return FALLOC_FL_KEEP_SIZE;
    case AllocateMode::kPunchHole:
      return FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    case AllocateMode::kZeroRange:
      return FALLOC_FL_ZERO_RANGE;
    case AllocateMode::kZeroRangeKeepSize:
      return FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
    case AllocateMode::kCollapseRange:
      return FALLOC_FL_COLLAPSE_RANGE;
    case AllocateMode::kInsertRange:
      return FALLOC_FL_INSERT_RANGE;
  }
  return 0;
}

// Whether the mode moves the bytes after the range. Then it must not be executed twice.
bool Moves(AllocateMode mode) {
  return mode == AllocateMode::kCollapseRange || mode == AllocateMode::kInsertRange;
}

// Records the intent. After a restart, the size shows whether the bytes after the range were moved.
// Any other mode is repeated unless it is known to be complete. Until then other clients cannot
// access the file.
DafsStatus BeginAllocate(const Caller& caller, const OpenData& data,
                         const wire::AllocateArgs& args) {
  if (caller.operation == nullptr) return DafsStatus::kOk;
  struct stat st;
  if (fstat(data.fd->get(), &st) != 0) return StatusFromErrno();
  Intent& intent = caller.operation->Prepare();
  intent.object = data.file->handle();
  intent.size = static_cast<uint64_t>(st.st_size);
  if (args.mode == AllocateMode::kCollapseRange) intent.object_size = intent.size - args.length;
  if (args.mode == AllocateMode::kInsertRange) intent.object_size = intent.size + args.length;
  if (Moves(args.mode)) intent.flags = Intent::kMoves;
  caller.operation->Begin();
  return DafsStatus::kOk;
}

// No file extends beyond INT64_MAX, and the kernel accepts no larger offset.
bool FitsInFile(uint64_t offset, uint64_t length) {
  return offset <= INT64_MAX && length <= INT64_MAX - offset;
}

}  // namespace

DafsStatus DataProcedures::Allocate(const Caller& caller, const wire::AllocateArgs& args) {
  if (args.length == 0) return DafsStatus::kInval;
  if (IsOfAttributes(args.filehandle)) return DafsStatus::kNotSupp;
  OpenData data;
  STORE_RETURN_IF_NOT_OK(
      FindData(store_, caller, args.filehandle, args.state_id, wire::kShareWrite, &data));
  if (!FitsInFile(args.offset, args.length)) return DafsStatus::kFbig;
  STORE_RETURN_IF_NOT_OK(ActAs(caller, *data.file->fs().exported));
  const auto offset = static_cast<off_t>(args.offset);
  const auto length = static_cast<off_t>(args.length);
  // Modes that move no bytes do not exclude others. They may take long, and writers that wait for
  // the lock would block their worker. An append that fails half-way at the same moment may undo
  // the new size.
  std::optional<absl::MutexLock> lock;
  std::optional<absl::ReaderMutexLock> shared;
  const bool moves = Moves(args.mode);
  if (moves) {
    lock.emplace(&store_.object_locks.AppendLock(data.file->key()));
  } else if (store_.persistent_locks.MayConcern(data.file->key())) {
    shared.emplace(&store_.object_locks.AppendLock(data.file->key()));
  }
  STORE_RETURN_IF_NOT_OK(
      CheckLocked(store_.persistent_locks, caller, !args.state_id.is_zero(), data.file->key(),
                  {args.offset, moves ? UINT64_MAX : args.length, /*write=*/true}));
  if (moves && HasRecoveringFrom(store_.undo_saves, caller, data.file->key(), args.offset)) {
    return DafsStatus::kNotSupp;  // the saved bytes would have to move, too
  }
  UndoChange bytes{args.offset, args.offset + args.length};
  if (args.mode == AllocateMode::kAllocate || args.mode == AllocateMode::kAllocateKeepSize) {
    struct stat st;
    if (fstat(data.fd->get(), &st) != 0) return StatusFromErrno();
    bytes.first = std::max(bytes.first, static_cast<uint64_t>(st.st_size));  // the others stay
  }
  const FileChange change(store_.exported, data.file->key(), bytes, /*resizes=*/moves);
  STORE_RETURN_IF_NOT_OK(SaveOld(store_, caller, *data.file, change));
  STORE_RETURN_IF_NOT_OK(BeginAllocate(caller, data, args));
  const int result = fallocate(data.fd->get(), FallocateMode(args.mode), offset, length);
  const DafsStatus status = result == 0 ? DafsStatus::kOk : StatusFromErrno();
  data.file->change().Modified();
  if (caller.operation != nullptr) caller.operation->Done(status, data.fd->get());
  return status;
}

DafsStatus DataProcedures::Seek(const Caller& caller, const wire::SeekArgs& args,
                                wire::SeekRes* res) {
  if (IsOfAttributes(args.filehandle)) return DafsStatus::kNotSupp;
  OpenData data;
  STORE_RETURN_IF_NOT_OK(
      FindData(store_, caller, args.filehandle, args.state_id, kShareAny, &data));
  if (args.offset > INT64_MAX) return DafsStatus::kNxio;
  const int whence = args.what == wire::SeekWhat::kData ? SEEK_DATA : SEEK_HOLE;
  // Changes the descriptor's position, which Append relies on.
  absl::ReaderMutexLock lock(&store_.object_locks.AppendLock(data.file->key()));
  const off_t found = lseek(data.fd->get(), static_cast<off_t>(args.offset), whence);
  if (found < 0) return StatusFromErrno();
  res->offset = static_cast<uint64_t>(found);
  return DafsStatus::kOk;
}

DafsStatus DataProcedures::CopyRange(const Caller& caller, const wire::CopyRangeArgs& args,
                                     wire::CopyRangeRes* res) {
  *res = {};
  if (IsOfAttributes(args.filehandle) || IsOfAttributes(args.source_filehandle)) {
    return DafsStatus::kNotSupp;
  }
  OpenData source, target;
  STORE_RETURN_IF_NOT_OK(FindData(store_, caller, args.source_filehandle, args.source_state_id,
                                  wire::kShareRead, &source));
  STORE_RETURN_IF_NOT_OK(
      FindData(store_, caller, args.filehandle, args.state_id, wire::kShareWrite, &target));
  const uint64_t length = std::min(args.length, kMostCopied);
  if (!FitsInFile(args.offset, length)) return DafsStatus::kFbig;
  if (!FitsInFile(args.source_offset, length)) return DafsStatus::kInval;
  // Whether locks of others permit to copy `bytes` from `done` on.
  const auto check = [&](uint64_t done, uint64_t bytes) {
    const DafsStatus status =
        CheckLocked(store_.persistent_locks, caller, !args.source_state_id.is_zero(),
                    source.file->key(), {args.source_offset + done, bytes, /*write=*/false});
    if (status != DafsStatus::kOk) return status;
    return CheckLocked(store_.persistent_locks, caller, !args.state_id.is_zero(),
                       target.file->key(), {args.offset + done, bytes, /*write=*/true});
  };
  STORE_RETURN_IF_NOT_OK(check(0, length));
  STORE_RETURN_IF_NOT_OK(ActAs(caller, *target.file->fs().exported));
  // Read before the copy, so that a loss during the copy shows.
  res->verifier = store_.write_verifier->Of(target.file->fs());
  if (caller.operation != nullptr) {
    Intent& intent = caller.operation->Prepare();
    intent.object = target.file->handle();
    intent.verifier = res->verifier;
    caller.operation->Begin();
  }
  auto from = static_cast<off_t>(args.source_offset);
  auto to = static_cast<off_t>(args.offset);
  DafsStatus status = DafsStatus::kOk;
  while (res->count < length) {
    const size_t part = std::min(length - res->count, kCopiedAtOnce);
    ssize_t n = 0;
    {
      absl::ReaderMutexLock lock(&store_.object_locks.AppendLock(target.file->key()));
      const ReadUnderWay read(source.file->key());
      status = check(res->count, part);  // another client may have locked it since the first check
      if (status != DafsStatus::kOk) break;
      const uint64_t first = args.offset + res->count;
      const FileChange change(store_.exported, target.file->key(), {first, first + part});
      status = SaveOld(store_, caller, *target.file, change);
      if (status != DafsStatus::kOk) break;
      n = copy_file_range(source.fd->get(), &from, target.fd->get(), &to, part, 0);
    }
    if (n < 0) status = StatusFromErrno();
    if (n <= 0) break;
    res->count += static_cast<uint64_t>(n);
  }
  // An error of a later part recurs when the client requests the rest.
  if (res->count > 0) status = DafsStatus::kOk;
  if (res->count > 0) target.file->change().Modified();
  if (store_.options.counts_use) {
    store_.opens.CountUse(args.source_state_id, res->count, 0);
    store_.opens.CountUse(args.state_id, 0, res->count);
  }
  if (caller.operation != nullptr) {
    caller.operation->result().length = res->count;
    caller.operation->Done(status, std::span<const int>());
  }
  return status;
}

}  // namespace dafs::server
