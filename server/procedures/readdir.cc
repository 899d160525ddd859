// READDIR_INLINE and READDIR_DIRECT. Directories are read in the pool: they come from the disk in
// many small pieces, and each entry may need its inode. The list of an object's named attributes is
// one system call, so READDIR_INLINE makes it on the worker, unless the export may hang.
// Spec: 6.5.29, 6.5.30; WIRE 10.2, R36, R56.
#include <algorithm>
#include <coroutine>

#include "server/procedures/direct_transfer.h"
#include "server/procedures/handler.h"
#include "server/procedures/ready.h"
#include "server/session/transfer/direct_buffers.h"
#include "wire/codec/checksum.h"
#include "wire/codec/direct.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

// The maximum part of a list in one transfer, so that it fits one piece of direct memory.
constexpr size_t kMostDirect = DirectBuffers::kLarge;

template <class Args>
ReaddirRequest RequestOf(const Args& args) {
  ReaddirRequest request;
  request.filehandle = args.filehandle;
  request.cookie = args.cookie;
  request.cookieverf = args.cookieverf;
  request.dircount = args.dircount;
  request.attr_request_bitmap = args.attr_request_bitmap;
  return request;
}

// The list becomes a part of the response.
class InlineList {
 public:
  using Args = wire::ReaddirInlineArgs;

  InlineList(Call& call, const Args& args) : call_(call), args_(args) {}

  struct Memory {};
  Ready<Memory> Acquire() const { return {}; }
  std::span<std::byte> Room(const Memory&) const {
    const std::span<std::byte> out = call_.out();
    const size_t room = (out.size() - wire::kReaddirInlineEntries) / 8 * 8;
    return out.subspan(wire::kReaddirInlineEntries, std::min<size_t>(args_.maxcount, room));
  }
  bool MayWait() const {
    return call_.may_hang() || NameProcedures::ReaddirMayWait(args_.filehandle);
  }
  bool Fits(size_t) const { return true; }
  std::suspend_never Finish(Memory&, wire::DirentArrayBuilder& builder,
                            const ReaddirResult& result) {
    const size_t count = builder.count();
    const size_t extent = builder.Finish();
    const wire::ResponseHeader header = call_.ResponseHeader(DafsStatus::kOk);
    const size_t size =
        wire::FinishReaddirInline(header, result.cookieverf, result.eof, count, extent,
                                  call_.order(), call_.out(), call_.session().terms().checksums());
    call_.FinishBuilt(args_, size);
    return {};
  }

 private:
  Call& call_;
  const Args& args_;
};

// The list goes through direct memory.
class DirectList {
 public:
  using Args = wire::ReaddirDirectArgs;

  DirectList(Call& call, const Args& args) : call_(call), args_(args) {
    call.Names(args.readdir_data_buffers);
  }

  DirectAcquirer Acquire() const {
    const uint64_t offered = wire::TotalBytes(args_.readdir_data_buffers);
    const uint64_t room = std::min({uint64_t{args_.maxcount}, offered, uint64_t{kMostDirect}});
    return call_.session().transfers().Acquire(static_cast<size_t>(room), call_.may_hang());
  }
  std::span<std::byte> Room(const DirectLease& lease) const {
    return lease.pieces().empty() ? std::span<std::byte>() : lease.pieces()[0];
  }
  bool MayWait() const { return true; }
  // An array without entries takes 8 bytes, which must fit too (10.2).
  bool Fits(size_t room) const { return room >= 8; }
  Task<void> Finish(DirectLease& lease, wire::DirentArrayBuilder& builder,
                    const ReaddirResult& result) {
    const std::span<std::byte> content = lease.pieces()[0].first(builder.Finish());
    wire::ReaddirDirectRes res;
    res.cookieverf = result.cookieverf;
    res.eof = result.eof;
    if (call_.session().terms().checksums()) {
      res.direct_checksum = wire::ComputeChecksum(content, call_.order());
    }
    const bool written =
        co_await WriteDirectContent(call_, content, args_.readdir_data_buffers, lease);
    call_.Finish(written ? DafsStatus::kOk : DafsStatus::kServerFault, args_, res);
  }

 private:
  Call& call_;
  const Args& args_;
};

template <class List>
Task<void> Readdir(Call& call) {
  typename List::Args args;
  if (!call.Decode(args)) co_return;
  Session& session = call.session();
  List list(call, args);
  auto memory = co_await list.Acquire();
  const std::span<std::byte> room = list.Room(memory);
  wire::DirentArrayBuilder builder(call.order(), room);
  const ReaddirRequest request = RequestOf(args);
  ReaddirResult result;
  DafsStatus status = DafsStatus::kServerFault;
  DafsStatus names = DafsStatus::kOk;  // DELAY: of some owner; the others are looked up too
  uint16_t promise = wire::kSpcondAttributes;
  auto read = [&] {
    const FencedSession::Access access(call.caller().fence);
    status = session.store().names().Readdir(
        call.caller(), request,
        [&](uint64_t cookie, std::string_view name, wire::FileAttributes& attrs) {
          if (NameOwners(session.shared().ids, attrs, &promise) != DafsStatus::kOk) {
            names = DafsStatus::kDelay;
          }
          return builder.Add(cookie, attrs, name);
        },
        &result);
    if (status == DafsStatus::kOk) status = names;
    if (promise == 0 && call.caller().promises != nullptr) {
      *call.caller().promises &= static_cast<uint16_t>(~wire::kSpcondAttributes);
    }
  };
  co_await OffloadIf(list.MayWait(), call.pool(), session.loop(), read);
  if (result.hides_for_security) {
    session.refusals().SayWrongSecurity(session.identity().client_id_string());
  }
  if (status == DafsStatus::kOk && !list.Fits(room.size())) status = DafsStatus::kReaddirNoSpc;
  if (status != DafsStatus::kOk) {
    call.FinishError(status);
    co_return;
  }
  co_await list.Finish(memory, builder, result);
}

}  // namespace

constexpr Procedure kReaddirInlineHandler = {.start = Readdir<InlineList>};
constexpr Procedure kReaddirDirectHandler = {.start = Readdir<DirectList>};

}  // namespace dafs::server
