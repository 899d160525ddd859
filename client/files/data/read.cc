// Reading. Spec: 4.2, 6.5.27, 6.5.28; WIRE 10.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/files/data/data.h"
#include "client/files/data/data_pieces.h"
#include "client/files/shared/either_call.h"
#include "client/files/shared/transfer_policy.h"
#include "client/recovery/calls/data_calls.h"
#include "client/recovery/calls/operation.h"
#include "runtime/check.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

constexpr int kMostDamaged = 3;  // transfers of one read with a wrong direct_checksum

}  // namespace

Task<absl::StatusOr<ReadResult>> DataOperations::Read(const Identity& user,
                                                      const wire::FileHandle& file,
                                                      const wire::StateId& state_id,
                                                      uint64_t offset, BufferLease& into,
                                                      uint32_t size, bool quiet) {
  DAFS_CHECK(into.use() == BufferUse::kReadTarget && size <= into.payload_bytes(),
             "a read into a lease that does not hold it");
  DataTarget target{&user, &file, state_id, offset};
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

Task<absl::StatusOr<ReadResult>> DataOperations::Read(const DataTarget& from,
                                                      const UserPart& into) {
  DAFS_CHECK(into.size <= transfers_.read_bytes(), "a read of the application that is not split");
  return ReadWhole(from, into);
}

Task<absl::StatusOr<ReadResult>> DataOperations::Read(const DataTarget& from,
                                                      const LeasePart& into) {
  return ReadWhole(from, into);
}

// Spec 3.2.5: data with a wrong checksum is discarded, and the request has failed.
template <class Part>
bool DataOperations::IsDamaged(const ReadDirectCallOf<Part>& read, const Part& part) const {
  const ClientOptions& options = client_.options();
  return options.checksums && !part.given_up() &&
         part.Checksum(read.res.bytes_read, options.byte_order) != read.res.direct_checksum;
}

template <class Part>
Task<absl::StatusOr<ReadResult>> DataOperations::ReadWhole(DataTarget target, Part whole) {
  ReadResult total;
  int damaged = 0;
  while (total.count < whole.size && !total.eof) {
    const Part rest = whole.Sub(total.count, whole.size - total.count);
    const Transfer transfer = transfers_.ForRead(rest.size, rest.registered());
    const Part part = rest.Sub(0, transfer.bytes);
    const uint64_t offset = target.offset + total.count;
    EitherCall<ReadInlineCallOf<Part>, ReadDirectCallOf<Part>> read(transfer.way, part);
    read.Visit([&](auto& call) {
      call.args.filehandle = *target.file;
      call.args.state_id = target.state_id;
      call.args.offset = offset;
      call.args.byte_count = part.size;
      call.args.cache_hint = target.cache_hint;
    });
    const CallBase& call = read.base();
    CallBase* const chain[] = {&read.base()};
    Task<absl::Status> task = Run(target.user, chain);
    CO_RETURN_IF_ERROR(co_await task);
    if (transfers_.LearnFromRead(transfer.way, call)) continue;
    if (UseLock(call.status, target, whole.size)) continue;
    if (!call.ok()) co_return StatusOf(call, "read");
    const ReadResult got = read.Visit([](auto& done) {
      return ReadResult{done.res.bytes_read, done.res.eof};
    });
    if (read.direct() != nullptr && IsDamaged(*read.direct(), part)) {
      if (++damaged <= kMostDamaged) continue;
      co_return absl::DataLossError(absl::StrCat(
          "read ", part.size, " at ", offset, ": data with a wrong checksum, ", damaged, " times"));
    }
    total.count += got.count;
    total.eof = got.eof;
    if (got.count == 0 && !got.eof) {
      co_return absl::UnknownError(absl::StrCat("read ", part.size, " at ", offset,
                                                ": no bytes, and not the end of the file"));
    }
  }
  co_return total;
}

Task<absl::StatusOr<ReadResult>> DataOperations::ReadInPieces(DataTarget target, LeasePart whole) {
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
