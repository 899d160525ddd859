// Procedures that carry file data in their messages, COMMIT and CACHE_HINT.
// Spec: 6.5.3, 6.5.6, 6.5.8, 6.5.27, 6.5.38; WIRE R12, R84, R85.
#include <algorithm>
#include <utility>

#include "server/procedures/procedures.h"
#include "server/session/pool.h"
#include "server/session/session.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

constexpr size_t kReadInlineData = 48;  // message offset of the data, WIRE 9.4 READ_INLINE

iovec VectorOf(std::span<const std::byte> data) {
  return {.iov_base = const_cast<std::byte*>(data.data()), .iov_len = data.size()};
}

}  // namespace

// Reads into the response itself, without a copy: from the page cache on the worker, otherwise in
// the pool.
dat::Task<void> ReadInline(Call& call) {
  wire::ReadInlineArgs args;
  if (!call.Decode(args)) co_return;
  if (call.session().terms().KeepsAtime(args.cache_hint)) call.KeepAtime();
  Session& session = call.session();
  const std::span<std::byte> out = call.out();
  const std::span<std::byte> into =
      out.subspan(kReadInlineData)
          .first(std::min<size_t>(args.byte_count, out.size() - kReadInlineData));
  ReadResult read;
  if (!call.may_hang()) {
    read = session.store().Read(call.caller(), args.filehandle, args.state_id, args.offset, into,
                                ReadMode::kNoWait);
  }
  if (call.may_hang() || read.would_block) {
    auto wait = [&] {
      read = session.store().Read(call.caller(), args.filehandle, args.state_id, args.offset, into,
                                  ReadMode::kWait);
    };
    co_await Offload(call.pool(), session.loop(), wait);
  }
  wire::ReadInlineRes res;
  res.eof = read.eof;
  res.bytes_read = read.bytes_read;
  wire::InlineData data;
  if (read.status == DafsStatus::kOk) data.data = into.first(read.bytes_read);
  call.Finish(read.status, args, res, data);
}

// Unstable writes go to the page cache, on the worker. Stable writes wait for the disk in the pool.
dat::Task<void> WriteInline(Call& call) {
  wire::WriteInlineArgs args;
  if (!call.Decode(args)) co_return;
  Session& session = call.session();
  const iovec from = VectorOf(call.data());
  WriteResult written;
  DafsStatus status = DafsStatus::kServerFault;
  auto write = [&] {
    status = session.store().Write(call.caller(), args.filehandle, args.state_id, args.offset,
                                   {&from, 1}, args.stable_how, &written);
  };
  const bool may_wait = call.may_hang() || args.stable_how != wire::StableHow::kUnstable;
  co_await OffloadIf(may_wait, call.pool(), session.loop(), write);
  wire::WriteInlineRes res;
  res.count = written.count;
  res.committed = written.committed;
  res.verifier = written.verifier;
  call.Finish(status, args, res);
}

// Appends are stable by definition (6.5.3); for most of them the page cache suffices.
dat::Task<void> AppendInline(Call& call) {
  wire::AppendInlineArgs args;
  if (!call.Decode(args)) co_return;
  Session& session = call.session();
  const iovec from = VectorOf(call.data());
  AppendResult appended;
  DafsStatus status = DafsStatus::kServerFault;
  auto append = [&] {
    status = session.store().Append(call.caller(), args.filehandle, args.state_id, {&from, 1},
                                    args.stable_how, &appended);
  };
  const bool may_wait =
      call.may_hang() || session.store().AppendMayWait(args.filehandle, args.stable_how);
  co_await OffloadIf(may_wait, call.pool(), session.loop(), append);
  wire::AppendInlineRes res;
  res.offset = appended.offset;
  res.committed = appended.committed;
  res.verifier = appended.verifier;
  call.Finish(status, args, res);
}

dat::Task<void> Commit(Call& call) {
  wire::CommitArgs args;
  if (!call.Decode(args)) co_return;
  Session& session = call.session();
  wire::CommitRes res;
  DafsStatus status = DafsStatus::kServerFault;
  auto commit = [&] { status = session.store().Commit(call.caller(), args, &res); };
  const bool may_wait = call.may_hang() || session.store().CommitMayWait(args.filehandle);
  co_await OffloadIf(may_wait, call.pool(), session.loop(), commit);
  call.Finish(status, args, res);
}

// A hint is optional (4.2.4): work that cannot be done at once is done when the pool is idle, or
// not at all.
void CacheHint(Call& call) {
  wire::CacheHintArgs args;
  if (!call.Decode(args)) return;
  absl::AnyInvocable<void()> later;
  const DafsStatus status = call.session().store().CacheHint(call.caller(), args, &later);
  if (later) call.pool().SubmitIdly(std::move(later));
  call.Finish(status, args, wire::CacheHintRes());
}

}  // namespace dafs::server
