// Reading. Spec: 4.2, 6.5.27, 6.5.28; WIRE 10.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/files/data.h"
#include "client/files/data_pieces.h"
#include "client/files/transfer_policy.h"
#include "client/recovery/data_calls.h"
#include "client/recovery/operation.h"
#include "runtime/check.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

constexpr int kMostDamaged = 3;  // transfers of one read with a wrong direct_checksum

}  // namespace

dat::Task<absl::StatusOr<ReadResult>> DataOperations::Read(const Identity& who,
                                                           const wire::FileHandle& file,
                                                           const wire::StateId& state_id,
                                                           uint64_t offset, BufferLease& into,
                                                           uint32_t size, bool quiet) {
  DAFS_CHECK(into.use() == BufferUse::kReadTarget && size <= into.payload_bytes(),
             "a read into a lease that does not hold it");
  DataTarget target{&who, &file, state_id, offset};
  if (quiet && (client_.limits().extensions.load(std::memory_order_relaxed) &
                wire::kExtensionReadKeepsAtime) != 0) {
    target.cache_hint |= wire::kCacheHintKeepAtime;
  }
  LeasePart part{&buffers_, &into, 0, size};
  return size <= transfers_.read_bytes() ? ReadWhole(target, part) : ReadInPieces(target, part);
}

// 4.4.1.2, 6.5.24 (MLOCK): a server with mandatory locks recognises I/O under a lock by the lock's
// state id. fcntl(2) locks have their own opens, and the kernel seldom says which process reads or
// writes. So if the server reports LOCKED and this client holds the lock, the I/O uses the lock's
// state id. Returns true: retry.
bool DataOperations::UseLock(wire::DafsStatus status, DataTarget& target, uint32_t size) const {
  if (status != wire::DafsStatus::kLocked || target.by_lock || size == 0) return false;
  std::optional<wire::StateId> lock = client_.locks().OverlappedBy(
      *target.file, target.offset, target.offset + size - 1, target.state_id);
  if (!lock.has_value()) return false;
  target.state_id = *lock;
  target.by_lock = true;
  return true;
}

dat::Task<absl::StatusOr<ReadResult>> DataOperations::Read(const DataTarget& from,
                                                           const UserPart& into) {
  DAFS_CHECK(into.size <= transfers_.read_bytes(), "a read of the application that is not split");
  return ReadWhole(from, into);
}

dat::Task<absl::StatusOr<ReadResult>> DataOperations::Read(const DataTarget& from,
                                                           const LeasePart& into) {
  return ReadWhole(from, into);
}

template <class Part>
dat::Task<absl::StatusOr<ReadResult>> DataOperations::ReadWhole(DataTarget target, Part whole) {
  const ClientOptions& options = client_.options();
  ReadResult total;
  int damaged = 0;
  while (total.count < whole.size && !total.eof) {
    Part part = whole.Sub(total.count, whole.size - total.count);
    uint32_t count = 0;
    const uint32_t room = options.max_response_size - kReadInlineData;
    const bool must_inline =
        client_.limits().no_direct_reads.load(std::memory_order_relaxed) || !part.registered();
    if (must_inline || part.size <= std::min(options.inline_read_bytes, room)) {
      part.size = std::min(part.size, room);
      ReadInlineCallOf<Part> call(part);
      call.args.filehandle = *target.file;
      call.args.state_id = target.state_id;
      call.args.offset = target.offset + total.count;
      call.args.byte_count = part.size;
      call.args.cache_hint = target.cache_hint;
      CallBase* const chain[] = {&call};
      dat::Task<absl::Status> task = Run(target.who, chain);
      CO_RETURN_IF_ERROR(co_await task);
      if (UseLock(call.status, target, whole.size)) continue;
      if (!call.ok()) co_return StatusOf(call, "read");
      count = call.res.bytes_read;
      total.eof = call.res.eof;
    } else {
      ReadDirectCallOf<Part> call(part);
      call.args.filehandle = *target.file;
      call.args.state_id = target.state_id;
      call.args.offset = target.offset + total.count;
      call.args.byte_count = part.size;
      call.args.cache_hint = target.cache_hint;
      CallBase* const chain[] = {&call};
      dat::Task<absl::Status> task = Run(target.who, chain);
      CO_RETURN_IF_ERROR(co_await task);
      if (call.status == wire::DafsStatus::kNotSupp) {
        client_.limits().no_direct_reads.store(true, std::memory_order_relaxed);
        continue;
      }
      if (UseLock(call.status, target, whole.size)) continue;
      if (!call.ok()) co_return StatusOf(call, "read");
      count = call.res.bytes_read;
      // Spec 3.2.5: data with a wrong checksum is discarded, and the request has failed.
      if (options.checksums && !part.given_up() &&
          part.Checksum(count, options.byte_order) != call.res.direct_checksum) {
        if (++damaged > kMostDamaged) {
          co_return absl::DataLossError(absl::StrCat("read ", part.size, " at ", call.args.offset,
                                                     ": data with a wrong checksum, ", damaged,
                                                     " times"));
        }
        continue;
      }
      total.eof = call.res.eof;
    }
    total.count += count;
    if (count == 0 && !total.eof) {
      co_return absl::UnknownError(absl::StrCat("read ", part.size, " at ",
                                                target.offset + total.count,
                                                ": no bytes, and not the end of the file"));
    }
  }
  co_return total;
}

dat::Task<absl::StatusOr<ReadResult>> DataOperations::ReadInPieces(DataTarget target,
                                                                   LeasePart whole) {
  Pieces<ReadResult> pieces(whole.size, transfers_.read_bytes(),
                            [&](uint32_t before, uint32_t bytes) {
                              return ReadWhole(target.Behind(before), whole.Sub(before, bytes));
                            });
  co_await pieces.done;
  ReadResult total;
  for (absl::StatusOr<ReadResult>& result : pieces.results()) {
    if (!result.ok()) co_return result.status();
    total.count += result->count;
    total.eof = result->eof;
    if (total.eof) break;
  }
  co_return total;
}

}  // namespace dafs::client
