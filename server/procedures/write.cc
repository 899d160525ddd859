// WRITE and APPEND, inline and direct, and COMMIT.
// Spec: 6.5.3, 6.5.4, 6.5.8, 6.5.38, 6.5.39; WIRE section 10, R12, R84, R85.
#include <array>

#include "absl/container/inlined_vector.h"
#include "server/procedures/direct_transfer.h"
#include "server/procedures/handler.h"
#include "server/procedures/ready.h"
#include "server/session/transfer/direct_buffers.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

// The data is a part of the request.
template <class A>
struct InlineSource {
  using Args = A;

  static bool TooBig(Call&, const Args&) { return false; }
  static void Names(Call&, const Args&) {}

  struct Memory {
    void Release() {}
  };
  static Ready<Memory> Acquire(Call&, const Args&) { return {}; }
  static Ready<DafsStatus> Fetch(Call&, const Args&, const Memory&) { return {DafsStatus::kOk}; }
  static std::array<iovec, 1> Vectors(Call& call, const Memory&) {
    return {
        {{.iov_base = const_cast<std::byte*>(call.data().data()), .iov_len = call.data().size()}}};
  }
};

std::span<const wire::DirectOpBuffer> BuffersOf(const wire::WriteDirectArgs& args) {
  return args.write_data_buffers;
}
std::span<const wire::DirectOpBuffer> BuffersOf(const wire::AppendDirectArgs& args) {
  return {&args.write_data_buffer, 1};
}

// The data is fetched from the client's memory.
template <class A>
struct DirectSource {
  using Args = A;

  static bool TooBig(Call& call, const Args& args) {
    return args.byte_count > call.session().shared().options->max_transfer_bytes;
  }
  static void Names(Call& call, const Args& args) { call.Names(BuffersOf(args)); }

  static DirectAcquirer Acquire(Call& call, const Args& args) {
    return call.session().transfers().Acquire(args.byte_count, call.may_hang());
  }
  static Task<DafsStatus> Fetch(Call& call, const Args& args, const DirectLease& lease) {
    return FetchData(call.session(), lease, BuffersOf(args), args.direct_checksum);
  }
  static absl::InlinedVector<iovec, 4> Vectors(Call&, const DirectLease& lease) {
    absl::InlinedVector<iovec, 4> vectors;
    for (std::span<std::byte> piece : lease.pieces()) {
      vectors.push_back({.iov_base = piece.data(), .iov_len = piece.size()});
    }
    return vectors;
  }
};

// Writes and appends differ in the call of the store, its result, and what may wait for a disk.

// Unstable writes go to the page cache, on the worker. Stable writes wait for the disk.
template <class Args>
requires requires(Args args) { args.offset; }
bool MayWait(Store&, const Args& args) { return args.stable_how != wire::StableHow::kUnstable; }
template <class Args>
requires requires(Args args) { args.offset; }
DafsStatus Put(Call& call, const Args& args, std::span<const iovec> from, wire::ResOf<Args>& res) {
  WriteResult written;
  const DafsStatus status = call.session().store().data().Write(
      call.caller(), args.filehandle, args.state_id, args.offset, from, args.stable_how, &written);
  res.count = written.count;
  res.committed = written.committed;
  res.verifier = written.verifier;
  return status;
}

// Whether the write waits because it is the first under an AUTORECOVERY lock.
template <class Args>
requires requires(Args args) { args.offset; }
bool SavesOldBytes(Call& call, const Args& args, std::span<const iovec> from) {
  uint64_t length = 0;
  for (const iovec& each : from) length += each.iov_len;
  return call.session().store().data().WriteMayWait(call.caller(), args.filehandle, args.offset,
                                                    length);
}
template <class Args>
bool SavesOldBytes(Call&, const Args&, std::span<const iovec>) {
  return false;  // a part of MayWait
}

// Appends are stable by definition (6.5.3); for most of them the page cache suffices.
template <class Args>
bool MayWait(Store& store, const Args& args) {
  return store.data().AppendMayWait(args.filehandle, args.stable_how);
}
template <class Args>
DafsStatus Put(Call& call, const Args& args, std::span<const iovec> from, wire::ResOf<Args>& res) {
  AppendResult appended;
  const DafsStatus status = call.session().store().data().Append(
      call.caller(), args.filehandle, args.state_id, from, args.stable_how, &appended);
  res.offset = appended.offset;
  res.committed = appended.committed;
  res.verifier = appended.verifier;
  return status;
}

template <class Source>
Task<void> Write(Call& call) {
  typename Source::Args args;
  if (!call.Decode(args)) co_return;
  Source::Names(call, args);
  if (Source::TooBig(call, args)) {
    call.FinishError(DafsStatus::kWriteTooBig);
    co_return;
  }
  Session& session = call.session();
  auto memory = co_await Source::Acquire(call, args);
  DafsStatus status = co_await Source::Fetch(call, args, memory);
  if (status == DafsStatus::kServerFault) call.CutShort();
  wire::ResOf<typename Source::Args> res;
  if (status == DafsStatus::kOk) {
    const auto from = Source::Vectors(call, memory);
    auto put = [&] {
      const FencedSession::Access access(call.caller().fence);
      status = Put(call, args, from, res);
    };
    const bool may_wait =
        call.may_hang() || MayWait(session.store(), args) || SavesOldBytes(call, args, from);
    Modification& modification = call.BeginModification();
    co_await OffloadIf(may_wait, call.pool(), session.loop(), put);
    if (modification.MustCall(status)) {
      Task<void> repeating =
          internal::CallAndRepeat(call, modification, may_wait, call.pool(), &status, put);
      co_await repeating;
    }
  }
  memory.Release();
  call.Finish(status, args, res);
}

bool CommitMayWait(Store& store, const wire::CommitArgs& args) {
  return store.data().CommitMayWait(args.filehandle);
}

}  // namespace

constexpr Procedure kWriteInlineHandler = {.start = Write<InlineSource<wire::WriteInlineArgs>>};
constexpr Procedure kWriteDirectHandler = {.start = Write<DirectSource<wire::WriteDirectArgs>>};
constexpr Procedure kAppendInlineHandler = {.start = Write<InlineSource<wire::AppendInlineArgs>>};
constexpr Procedure kAppendDirectHandler = {.start = Write<DirectSource<wire::AppendDirectArgs>>};
constexpr Procedure kCommitHandler = kInPoolIf<&DataProcedures::Commit, CommitMayWait>;

}  // namespace dafs::server
