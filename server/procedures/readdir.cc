// READDIR_INLINE and READDIR_DIRECT. Directories are read in the pool: they come from the disk in
// many small pieces, and each entry may need its inode. The list of an object's named attributes is
// one system call, so READDIR_INLINE makes it on the worker, unless the export may hang.
// Spec: 6.5.29, 6.5.30; WIRE 10.2, R36, R56.
#include <algorithm>

#include "server/procedures/procedures.h"
#include "server/session/direct_buffers.h"
#include "server/session/direct_transfer.h"
#include "server/session/pool.h"
#include "server/session/session.h"
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

}  // namespace

dat::Task<void> ReaddirInline(Call& call) {
  wire::ReaddirInlineArgs args;
  if (!call.Decode(args)) co_return;
  Session& session = call.session();
  const std::span<std::byte> out = call.out();
  const size_t room = (out.size() - wire::kReaddirInlineEntries) / 8 * 8;
  wire::DirentArrayBuilder builder(
      call.order(),
      out.subspan(wire::kReaddirInlineEntries, std::min<size_t>(args.maxcount, room)));
  const ReaddirRequest request = RequestOf(args);
  ReaddirResult result;
  DafsStatus status = DafsStatus::kServerFault;
  auto list = [&] {
    status = session.store().Readdir(
        call.caller(), request,
        [&](uint64_t cookie, std::string_view name, wire::FileAttributes& attrs) {
          return builder.Add(cookie, attrs, name);
        },
        &result);
  };
  const bool may_wait = call.may_hang() || Store::ReaddirMayWait(args.filehandle);
  co_await OffloadIf(may_wait, call.pool(), session.loop(), list);
  if (result.hides_for_port) session.refusals().SayWrongPort(session.identity().client_id_string());
  if (status != DafsStatus::kOk) {
    call.FinishError(status);
    co_return;
  }
  const size_t count = builder.count();
  const size_t extent = builder.Finish();
  const wire::ResponseHeader header = call.ResponseHeader(DafsStatus::kOk);
  const size_t size =
      wire::FinishReaddirInline(header, result.cookieverf, result.eof, count, extent, call.order(),
                                out, session.terms().checksums());
  call.FinishBuilt(args, size);
}

dat::Task<void> ReaddirDirect(Call& call) {
  wire::ReaddirDirectArgs args;
  if (!call.Decode(args)) co_return;
  call.Names(args.readdir_data_buffers);
  Session& session = call.session();
  const size_t room = std::min({size_t{args.maxcount},
                                static_cast<size_t>(std::min<uint64_t>(
                                    wire::TotalBytes(args.readdir_data_buffers), kMostDirect)),
                                kMostDirect});
  DirectLease lease = co_await session.transfers().Acquire(room, call.may_hang());
  std::span<std::byte> content;
  if (room > 0) content = lease.pieces()[0];
  wire::DirentArrayBuilder builder(call.order(), content);
  const ReaddirRequest request = RequestOf(args);
  ReaddirResult result;
  DafsStatus status = DafsStatus::kServerFault;
  auto list = [&] {
    status = session.store().Readdir(
        call.caller(), request,
        [&](uint64_t cookie, std::string_view name, wire::FileAttributes& attrs) {
          return builder.Add(cookie, attrs, name);
        },
        &result);
  };
  co_await Offload(call.pool(), session.loop(), list);
  if (result.hides_for_port) session.refusals().SayWrongPort(session.identity().client_id_string());
  // An array without entries takes 8 bytes, which must fit too (10.2).
  if (status == DafsStatus::kOk && room < 8) status = DafsStatus::kReaddirNoSpc;
  if (status != DafsStatus::kOk) {
    call.FinishError(status);
    co_return;
  }
  content = content.first(builder.Finish());
  wire::ReaddirDirectRes res;
  res.cookieverf = result.cookieverf;
  res.eof = result.eof;
  if (session.terms().checksums())
    res.direct_checksum = wire::ComputeChecksum(content, call.order());
  const bool written = co_await WriteDirectContent(call, content, args.readdir_data_buffers, lease);
  call.Finish(written ? DafsStatus::kOk : DafsStatus::kServerFault, args, res);
}

}  // namespace dafs::server
