// Writing and appending. Spec: 4.2, 6.5.3, 6.5.4, 6.5.38, 6.5.39; WIRE 10.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/files/data/data.h"
#include "client/files/data/data_pieces.h"
#include "client/files/shared/either_call.h"
#include "client/files/shared/transfer_policy.h"
#include "client/recovery/calls/data_calls.h"
#include "client/recovery/calls/operation.h"
#include "client/recovery/committer.h"
#include "runtime/check.h"
#include "runtime/status_macros.h"

namespace dafs::client {

Task<absl::StatusOr<WriteResult>> DataOperations::Write(
    const Identity& user, const wire::FileHandle& file, const wire::StateId& state_id,
    uint64_t offset, const BufferLease& from, uint32_t position, uint32_t size,
    wire::StableHow stability, Attributes* after) {
  DAFS_CHECK(
      from.use() == BufferUse::kWriteSource && uint64_t{position} + size <= from.payload_bytes(),
      "a write from a lease that does not hold it");
  DataTarget target{&user, &file, state_id, offset, stability};
  if (size <= transfers_.write_bytes()) target.after = after;
  return WriteBracketed(target, LeasePart{&buffers_, &from, position, size});
}

Task<absl::StatusOr<WriteResult>> DataOperations::Write(const DataTarget& to,
                                                        const UserPart& from) {
  return WriteBracketed(to, from);
}

Task<absl::StatusOr<WriteResult>> DataOperations::Write(const DataTarget& to,
                                                        const LeasePart& from) {
  return WriteBracketed(to, from);
}

// In parallel pieces if it is larger than the server accepts at once.
Task<absl::StatusOr<WriteResult>> DataOperations::WriteParts(DataTarget target, LeasePart whole) {
  return whole.size <= transfers_.write_bytes() ? WriteWhole(target, whole)
                                                : WriteInPieces(target, whole);
}

// AsyncIo has split it already.
Task<absl::StatusOr<WriteResult>> DataOperations::WriteParts(DataTarget target, UserPart whole) {
  return WriteWhole(target, whole);
}

template <class Part>
Task<absl::StatusOr<WriteResult>> DataOperations::WriteBracketed(DataTarget target, Part whole) {
  if (!client_.uncommitted().BeginWrite(*target.file)) {
    Task<absl::Status> waiting = committer_.BeginWrite(*target.file);
    CO_RETURN_IF_ERROR(co_await waiting);
  }
  Task<absl::StatusOr<WriteResult>> task = WriteParts(target, whole);
  absl::StatusOr<WriteResult> result = co_await task;
  client_.uncommitted().EndWrite(*target.file);
  co_return result;
}

namespace {

// Adds a part to what was written before it.
void Join(WriteResult& total, uint32_t count, wire::StableHow committed,
          const wire::Verifier& verifier) {
  if (total.count > 0 && !(total.verifier == verifier)) total.verifier_changed = true;
  total.count += count;
  total.committed = std::min(total.committed, committed);
  total.verifier = verifier;
}

// Sets the arguments of a write of `size` bytes at `offset`, inline or direct.
template <class Args>
void SetTarget(const DataTarget& target, uint64_t offset, uint32_t size, Args& args) {
  args.filehandle = *target.file;
  args.state_id = target.state_id;
  args.offset = offset;
  args.byte_count = size;
  args.stable_how = target.stability;
  args.cache_hint = target.cache_hint;
}

template <class Part>
using WriteCall =
    EitherCall<InlineWriteCallOf<Part, wire::WriteInlineArgs>, WriteDirectCallOf<Part>>;

// Adds the response to a write of `size` bytes. *committed: how stable the bytes are.
template <class Part>
absl::Status Join(WriteResult& total, WriteCall<Part>& write, uint32_t size,
                  wire::StableHow* committed) {
  if (!write.base().ok()) return StatusOf(write.base(), "write");
  return write.Visit([&](const auto& call) {
    const uint32_t count = call.res.count;
    if (count == 0 || count > size) {
      return absl::UnknownError(
          absl::StrCat("write ", size, ": the server reports a count of ", count));
    }
    Join(total, count, call.res.committed, call.res.verifier);
    *committed = call.res.committed;
    return absl::OkStatus();
  });
}

}  // namespace

// `count` bytes at `offset` were written as `committed`. Returns false if they are unstable, and
// are to be kept for a rewrite.
bool DataOperations::SettleIfStable(const DataTarget& target, uint64_t offset, uint32_t count,
                                    wire::StableHow committed) {
  if (committed == wire::StableHow::kUnstable) return false;
  client_.uncommitted().Forget(*target.file, offset, offset + count);
  if (committed == wire::StableHow::kDataSync) {
    committer_.NeedCommit(*target.file, *target.user, count);
  }
  return true;
}

template <class Part>
Task<absl::StatusOr<WriteResult>> DataOperations::WriteWhole(DataTarget target, Part whole) {
  WriteResult total;
  bool may_be_direct = whole.registered();
  while (total.count < whole.size) {
    const uint32_t before = total.count;
    const uint64_t offset = target.offset + before;
    const Transfer transfer = transfers_.ForWrite(whole.size - before, may_be_direct);
    const Part part = whole.Sub(before, transfer.bytes);
    WriteCall<Part> write(transfer.way, part);
    write.Visit([&](auto& call) { SetTarget(target, offset, part.size, call.args); });
    std::optional<AfterCall> stat;
    if (target.after != nullptr && transfer.way == Way::kInline && part.size == whole.size) {
      stat.emplace(*target.file, target.after);
    }
    CallBase* const chain[] = {&write.base(), stat.has_value() ? &*stat : nullptr};
    Task<absl::Status> task =
        Run(target.user, std::span<CallBase* const>(chain, stat.has_value() ? 2 : 1));
    absl::Status status = co_await task;
    if (status.ok() && transfers_.LearnFromWrite(transfer.way, write.base())) {
      may_be_direct = false;
      continue;
    }
    wire::StableHow committed = target.stability;
    if (status.ok()) status = Join(total, write, part.size, &committed);
    if (!status.ok()) {
      const wire::DafsStatus refused = wire::DafsFromStatus(status);
      if (transfers_.LearnFromSize(transfer, refused)) continue;
      if (UseLock(refused, target, whole.size)) continue;
      if (total.count == 0) co_return status;
      total.later = std::move(status);
      break;
    }
    const uint32_t count = total.count - before;
    if (stat.has_value() && count == part.size) stat->Put();
    if (SettleIfStable(target, offset, count, committed)) continue;
    Task<bool> keeping = KeepPart(target, offset, part.Sub(0, count), total.verifier);
    if (!(co_await keeping)) {  // no memory to keep it: write stably instead
      total.count = before;
      target.stability = wire::StableHow::kFileSync;
    }
  }
  co_return total;
}

// Keeps the data for a rewrite, for both kinds of memory. Keeps the buffer of a lease itself, if
// that is possible and the data fills more than half of it.
Task<bool> DataOperations::KeepPart(const DataTarget& target, uint64_t offset, LeasePart part,
                                    wire::Verifier verifier) {
  std::shared_ptr<const void> memory;
  if (part.size > part.lease->payload_bytes() / 2) memory = part.pool->Keep(*part.lease);
  if (memory != nullptr && part.pool->KeepsMost()) committer_.CommitSoon();
  return committer_.Keep(target, offset, part.bytes(), std::move(memory), verifier);
}

Task<bool> DataOperations::KeepPart(const DataTarget& target, uint64_t offset, UserPart part,
                                    wire::Verifier verifier) {
  if (part.given_back()) co_return false;  // the application may have changed it
  const MemoryHold hold = part.Hold();
  std::span<const std::byte> first;
  uint32_t left = part.size;
  while (left > 0) {
    const UserPart rest = part.Sub(part.size - left, left);
    rest.ForEach([&](std::span<const std::byte> bytes) {
      first = bytes;
      return false;
    });
    Task<bool> keeping = committer_.Keep(target, offset, first, nullptr, verifier);
    if (!(co_await keeping)) co_return false;
    offset += first.size();
    left -= static_cast<uint32_t>(first.size());
  }
  co_return true;
}

Task<absl::StatusOr<WriteResult>> DataOperations::WriteInPieces(DataTarget target,
                                                                LeasePart whole) {
  Pieces<WriteResult> pieces(whole.size, transfers_.write_bytes(),
                             [&](uint32_t before, uint32_t bytes) {
                               return WriteWhole(target.Behind(before), whole.Sub(before, bytes));
                             });
  co_await pieces.done;
  WriteResult total;
  for (absl::StatusOr<WriteResult>& result : pieces.results()) {
    if (!result.ok()) {
      if (total.count == 0) co_return result.status();
      total.later = result.status();
      break;
    }
    Join(total, result->count, result->committed, result->verifier);
    total.verifier_changed |= result->verifier_changed;
    if (!result->later.ok()) {
      total.later = result->later;
      break;
    }
  }
  co_return total;
}

Task<absl::StatusOr<AppendResult>> DataOperations::Append(
    const Identity& user, const wire::FileHandle& file, const wire::StateId& state_id,
    const BufferLease& from, uint32_t position, uint32_t size, wire::StableHow stability) {
  DAFS_CHECK(
      from.use() == BufferUse::kWriteSource && uint64_t{position} + size <= from.payload_bytes(),
      "an append from a lease that does not hold it");
  const wire::StableHow stable = std::max(stability, wire::StableHow::kDataSync);  // 6.5.3
  LeasePart part{&buffers_, &from, position, size};
  // Retries only what was not executed, and never splits. The limit of the server may turn out to
  // be lower than it seemed.
  while (size <= transfers_.append_bytes()) {
    const Way way = transfers_.WayToWrite(size);
    EitherCall<InlineWriteCall<wire::AppendInlineArgs>, AppendDirectCall> append(way, part);
    append.Visit([&](auto& call) {
      call.args.filehandle = file;
      call.args.state_id = state_id;
      call.args.byte_count = size;
      call.args.stable_how = stable;
    });
    const CallBase& call = append.base();
    CallBase* const chain[] = {&append.base()};
    Task<absl::Status> task = Run(&user, chain);
    absl::Status status = co_await task;
    if (status.ok() && transfers_.LearnFromWrite(way, call)) continue;
    // A new session with smaller messages: the request was not sent.
    if (!status.ok() && !call.sent &&
        transfers_.LearnFromSize({way, size}, wire::DafsFromStatus(status))) {
      continue;
    }
    CO_RETURN_IF_ERROR(status);
    if (!call.ok()) co_return StatusOf(call, "append");
    const AppendResult result = append.Visit([](const auto& done) {
      return AppendResult{done.res.offset, done.res.committed, done.res.verifier};
    });
    if (result.committed != wire::StableHow::kFileSync) committer_.NeedCommit(file, user, size);
    co_return result;
  }
  co_return wire::StatusFromDafs(
      wire::DafsStatus::kWriteTooBig,
      absl::StrCat("append of ", size, " bytes, at most ", transfers_.append_bytes(), " at once"));
}

}  // namespace dafs::client
