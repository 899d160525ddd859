// READ_INLINE, READ_DIRECT and CACHE_HINT.
// Spec: 6.5.6, 6.5.27, 6.5.28; WIRE section 10, R12, R84, R85.
#include <algorithm>
#include <coroutine>
#include <optional>
#include <utility>

#include "server/procedures/direct_transfer.h"
#include "server/procedures/file_read.h"
#include "server/procedures/handler.h"
#include "server/procedures/ready.h"
#include "server/session/transfer/direct_buffers.h"
#include "wire/codec/checksum.h"
#include "wire/protocol/inline_offset.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

// The data goes into the response itself, without a copy.
class InlineTarget {
 public:
  using Args = wire::ReadInlineArgs;
  using Res = wire::ReadInlineRes;
  static constexpr size_t kData = wire::EndOfRes(wire::Proc::kReadInline);

  InlineTarget(Call& call, const Args& args)
      : call_(call),
        into_(call.out().subspan(kData).first(
            std::min<size_t>(args.byte_count, call.out().size() - kData))) {}

  struct Memory {};
  Ready<Memory> Acquire() const { return {}; }
  std::suspend_never Begin(Memory) const { return {}; }
  size_t pieces() const { return 1; }
  std::span<std::byte> piece(size_t) const { return into_; }
  std::suspend_never Send(std::span<std::byte>) const { return {}; }
  void Sent(std::span<std::byte> got) { got_ = got; }
  Ready<bool> Done() const { return {true}; }
  void Finish(DafsStatus status, const Args& args, const Res& res) {
    call_.Finish(status, args, res, {.data = got_});
  }

 private:
  Call& call_;
  const std::span<std::byte> into_;
  std::span<std::byte> got_;
};

// The data goes into direct memory, and from there to the client piece by piece: the next piece is
// read while the last is being sent.
class DirectTarget {
 public:
  using Args = wire::ReadDirectArgs;
  using Res = wire::ReadDirectRes;

  DirectTarget(Call& call, const Args& args)
      : call_(call), args_(args), session_(call.session()), sum_(call.order()) {
    call.Names(args.read_data_buffers);
  }

  DirectAcquirer Acquire() {
    const size_t total = std::min(args_.byte_count, session_.shared().options->max_transfer_bytes);
    return session_.transfers().Acquire(total, call_.may_hang());
  }
  Task<void> Begin(DirectLease lease) {
    lease_ = std::move(lease);
    writer_.emplace(call_, args_.read_data_buffers, lease_.pieces());
    return writer_->Begin();
  }
  // One at least: a read of no bytes still checks permissions.
  size_t pieces() const { return std::max<size_t>(lease_.pieces().size(), 1); }
  std::span<std::byte> piece(size_t i) const {
    return lease_.pieces().empty() ? std::span<std::byte>() : lease_.pieces()[i];
  }
  Task<void> Send(std::span<std::byte> got) { return writer_->Post(got); }
  void Sent(std::span<std::byte> got) {
    if (session_.terms().checksums()) sum_.Add(got);
  }
  Task<bool> Done() { return writer_->Done(lease_); }
  void Finish(DafsStatus status, const Args& args, Res& res) {
    if (session_.terms().checksums()) res.direct_checksum = sum_.Result();
    call_.Finish(status, args, res);
  }

 private:
  Call& call_;
  const Args& args_;
  Session& session_;
  wire::Fletcher sum_;
  DirectLease lease_;
  std::optional<DirectWriter> writer_;
};

// An error after the first piece makes the read short; the client gets the error when it reads the
// rest.
template <class Target>
Task<void> Read(Call& call) {
  typename Target::Args args;
  if (!call.Decode(args)) co_return;
  if (call.session().terms().KeepsAtime(args.cache_hint)) call.KeepAtime();
  Target target(call, args);
  auto memory = co_await target.Acquire();
  co_await target.Begin(std::move(memory));
  const FileReader file{call.session(), call.may_hang() ? &call.pool() : nullptr, call.caller(),
                        args.filehandle, args.state_id};
  typename Target::Res res;
  DafsStatus status = DafsStatus::kOk;
  for (size_t i = 0; i < target.pieces(); ++i) {
    const std::span<std::byte> piece = target.piece(i);
    const ReadResult read = co_await FileRead(file, args.offset + res.bytes_read, piece);
    if (read.status != DafsStatus::kOk) {
      if (i == 0) status = read.status;
      break;
    }
    const std::span<std::byte> got = piece.first(read.bytes_read);
    co_await target.Send(got);
    target.Sent(got);
    res.bytes_read += read.bytes_read;
    res.eof = read.eof;
    if (got.size() < piece.size() || read.eof) break;
  }
  const bool delivered = co_await target.Done();
  target.Finish(delivered ? status : DafsStatus::kServerFault, args, res);
}

// A hint is optional (4.2.4): work that cannot be done at once is done when the pool is idle, or
// not at all.
DafsStatus CacheHint(Call& call, const wire::CacheHintArgs& args, wire::CacheHintRes*) {
  absl::AnyInvocable<void()> later;
  const DafsStatus status = call.session().store().data().CacheHint(call.caller(), args, &later);
  if (later) call.pool().SubmitIdly(std::move(later));
  return status;
}

}  // namespace

constexpr Procedure kReadInlineHandler = {.start = Read<InlineTarget>};
constexpr Procedure kReadDirectHandler = {.start = Read<DirectTarget>};
constexpr Procedure kCacheHintHandler = kAtOnce<CacheHint>;

}  // namespace dafs::server
