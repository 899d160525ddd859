// Ranges of a file: the private procedures ALLOCATE, SEEK and COPY_RANGE (wire/messages_ranges.h),
// as fallocate(2), lseek(2) and copy_file_range(2) of the file system.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "server/store/data_access.h"
#include "server/store/errno_status.h"
#include "server/store/store_impl.h"
#include "wire/messages_ranges.h"

namespace dafs::server {

using wire::AllocateMode;
using wire::DafsStatus;

namespace {

// The most that one COPY_RANGE copies, so that no thread is held for minutes where the file system
// has to move the bytes; and the part of it between which other writers of the file get their turn.
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

// No file reaches beyond INT64_MAX, and the kernel takes no position there.
bool FitsInFile(uint64_t offset, uint64_t length) {
  return offset <= INT64_MAX && length <= INT64_MAX - offset;
}

}  // namespace

DafsStatus Store::Allocate(const Caller& caller, const wire::AllocateArgs& args) {
  if (args.length == 0) return DafsStatus::kInval;
  if (IsOfAttributes(args.filehandle)) return DafsStatus::kNotSupp;
  OpenData data;
  STORE_RETURN_IF_NOT_OK(
      FindData(*impl_, caller, args.filehandle, args.state_id, wire::kShareWrite, &data));
  if (!FitsInFile(args.offset, args.length)) return DafsStatus::kFbig;
  STORE_RETURN_IF_NOT_OK(impl_->Enter(caller, *data.file->fs().exported));
  const auto offset = static_cast<off_t>(args.offset);
  const auto length = static_cast<off_t>(args.length);
  // Without the append lock: allocating may take long, and writers that wait for the lock would
  // hold up their worker. An append that fails half way at this very moment may take the new size
  // back.
  const int result = fallocate(data.fd->get(), FallocateMode(args.mode), offset, length);
  const int error = errno;
  data.file->change().Modified();
  return result == 0 ? DafsStatus::kOk : StatusFromErrno(error);
}

DafsStatus Store::Seek(const Caller& caller, const wire::SeekArgs& args, wire::SeekRes* res) {
  if (IsOfAttributes(args.filehandle)) return DafsStatus::kNotSupp;
  OpenData data;
  STORE_RETURN_IF_NOT_OK(
      FindData(*impl_, caller, args.filehandle, args.state_id, kShareAny, &data));
  if (args.offset > INT64_MAX) return DafsStatus::kNxio;
  // The descriptor's own position means nothing to anybody.
  const int whence = args.what == wire::SeekWhat::kData ? SEEK_DATA : SEEK_HOLE;
  const off_t found = lseek(data.fd->get(), static_cast<off_t>(args.offset), whence);
  if (found < 0) return StatusFromErrno();
  res->offset = static_cast<uint64_t>(found);
  return DafsStatus::kOk;
}

DafsStatus Store::CopyRange(const Caller& caller, const wire::CopyRangeArgs& args,
                            wire::CopyRangeRes* res) {
  *res = {};
  if (IsOfAttributes(args.filehandle) || IsOfAttributes(args.source_filehandle)) {
    return DafsStatus::kNotSupp;
  }
  OpenData source, target;
  STORE_RETURN_IF_NOT_OK(FindData(*impl_, caller, args.source_filehandle, args.source_state_id,
                                  wire::kShareRead, &source));
  STORE_RETURN_IF_NOT_OK(
      FindData(*impl_, caller, args.filehandle, args.state_id, wire::kShareWrite, &target));
  const uint64_t length = std::min(args.length, kMostCopied);
  if (!FitsInFile(args.offset, length)) return DafsStatus::kFbig;
  if (!FitsInFile(args.source_offset, length)) return DafsStatus::kInval;
  STORE_RETURN_IF_NOT_OK(impl_->Enter(caller, *target.file->fs().exported));
  res->verifier = impl_->WriteVerifier();  // before: a loss during the copy must show
  auto from = static_cast<off_t>(args.source_offset);
  auto to = static_cast<off_t>(args.offset);
  DafsStatus status = DafsStatus::kOk;
  while (res->count < length) {
    const size_t part = std::min(length - res->count, kCopiedAtOnce);
    ssize_t n = 0;
    {
      absl::ReaderMutexLock lock(&impl_->AppendLock(target.file->key()));
      n = copy_file_range(source.fd->get(), &from, target.fd->get(), &to, part, 0);
    }
    if (n < 0) status = StatusFromErrno();
    if (n <= 0) break;
    res->count += static_cast<uint64_t>(n);
  }
  if (res->count == 0) return status;
  target.file->change().Modified();
  return DafsStatus::kOk;  // a later part's error comes up again when the rest is asked for
}

}  // namespace dafs::server
