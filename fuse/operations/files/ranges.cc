#include "fuse/operations/files/ranges.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>

#include "fuse/kernel/errno.h"

namespace dafs::fuse {
namespace {

std::optional<wire::AllocateMode> AllocateModeOf(uint32_t mode) {
  switch (mode) {
    case 0:
      return wire::AllocateMode::kAllocate;
    case FALLOC_FL_KEEP_SIZE:
      return wire::AllocateMode::kAllocateKeepSize;
    case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
      return wire::AllocateMode::kPunchHole;
    case FALLOC_FL_ZERO_RANGE:
      return wire::AllocateMode::kZeroRange;
    case FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE:
      return wire::AllocateMode::kZeroRangeKeepSize;
    case FALLOC_FL_COLLAPSE_RANGE:
      return wire::AllocateMode::kCollapseRange;
    case FALLOC_FL_INSERT_RANGE:
      return wire::AllocateMode::kInsertRange;
    default:
      return std::nullopt;
  }
}

// The most bytes of a copy that the 32 bits of an answer hold, in whole pages.
constexpr uint64_t kMostCopied = 0xffff'f000;

}  // namespace

Task<void> RangeOperations::Fallocate(Call& call) {
  RequestReader in = call.reader();
  auto fallocate = in.Take<fuse_fallocate_in>();
  std::shared_ptr<OpenState> open = in.ok() ? state_.open_files.Find(fallocate.fh) : nullptr;
  if (open == nullptr) {
    call.ReplyErrno(in.ok() ? EBADF : EINVAL);
    co_return;
  }
  std::optional<wire::AllocateMode> mode = AllocateModeOf(fallocate.mode);
  if (!mode.has_value()) {
    call.ReplyErrno(EOPNOTSUPP);
    co_return;
  }
  if (files_.has_users()) {
    Task<void> preparing = context_.BeforeDataChange(*open->opener, open->nodeid, open->handle);
    co_await preparing;
  }
  context_.attributes.MarkDataChanged(open->nodeid);
  // Fails with EOPNOTSUPP, not ENOSYS, if the server cannot do it: other modes may still work.
  absl::Status done = co_await files_.Of(*open->opener)
                          .ranges()
                          .Allocate(*open->opener, open->handle, open->state_id, *mode,
                                    fallocate.offset, fallocate.length);
  context_.attributes.MarkDataChanged(open->nodeid);
  call.ReplyStatus(done);
}

Task<void> RangeOperations::Lseek(Call& call) {
  RequestReader in = call.reader();
  auto lseek = in.Take<fuse_lseek_in>();
  std::shared_ptr<OpenState> open = in.ok() ? state_.open_files.Find(lseek.fh) : nullptr;
  if (open == nullptr) {
    call.ReplyErrno(in.ok() ? EBADF : EINVAL);
    co_return;
  }
  if (lseek.whence != SEEK_DATA && lseek.whence != SEEK_HOLE) {
    call.ReplyErrno(EINVAL);
    co_return;
  }
  const wire::SeekWhat what =
      lseek.whence == SEEK_DATA ? wire::SeekWhat::kData : wire::SeekWhat::kHole;
  absl::StatusOr<uint64_t> found =
      co_await files_.Of(*open->opener)
          .ranges()
          .Seek(*open->opener, open->handle, open->state_id, what, lseek.offset);
  if (found.ok()) {
    fuse_lseek_out out = {.offset = *found};
    call.Reply({AsBytes(out)});
  } else if (absl::IsUnimplemented(found.status())) {
    call.ReplyErrno(ENOSYS);  // the kernel then treats all of a file as data
  } else {
    call.ReplyStatus(found.status());
  }
}

Task<void> RangeOperations::CopyFileRange(Call& call) {
  RequestReader in = call.reader();
  auto copy = in.Take<fuse_copy_file_range_in>();
  std::shared_ptr<OpenState> from = in.ok() ? state_.open_files.Find(copy.fh_in) : nullptr;
  std::shared_ptr<OpenState> to = in.ok() ? state_.open_files.Find(copy.fh_out) : nullptr;
  if (from == nullptr || to == nullptr) {
    call.ReplyErrno(in.ok() ? EBADF : EINVAL);
    co_return;
  }
  if (!files_.AreShared(*from->opener, *to->opener)) {
    call.ReplyErrno(EXDEV);  // the kernel then copies by reading and writing
    co_return;
  }
  co_await context_.pending.Drained(to->nodeid);
  if (files_.has_users()) {
    Task<void> preparing = context_.BeforeDataChange(*to->opener, to->nodeid, to->handle);
    co_await preparing;
  }
  if (call.answered()) co_return;  // its caller was killed while it waited
  context_.attributes.MarkDataChanged(to->nodeid);
  state_.caches.attributes.InvalidatePrefetched(from->nodeid);  // atime
  const uint64_t length = std::min(copy.len, kMostCopied);
  absl::StatusOr<client::CopyResult> copied =
      co_await files_.Of(*to->opener)
          .ranges()
          .CopyRange(*to->opener, from->handle, from->state_id, copy.off_in, to->handle,
                     to->state_id, copy.off_out, length);
  context_.attributes.MarkDataChanged(to->nodeid);
  if (!copied.ok()) {
    // After ENOSYS the kernel copies by reading and writing.
    call.ReplyErrno(absl::IsUnimplemented(copied.status()) ? ENOSYS
                                                           : ErrnoFromStatus(copied.status()));
    co_return;
  }
  if (call.header().opcode == kCopyFileRange64) {
    CopyFileRangeOut out = {.bytes_copied = copied->count};
    call.Reply({AsBytes(out)});
  } else {
    fuse_write_out out = {.size = static_cast<uint32_t>(copied->count), .padding = 0};
    call.Reply({AsBytes(out)});
  }
}

}  // namespace dafs::fuse
