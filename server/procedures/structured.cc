// Direct variants of procedures that move attributes or the content of a link: GETATTR_DIRECT,
// READLINK_DIRECT, SETATTR_DIRECT.
// Spec: 6.5.14, 6.5.32, 6.5.36; WIRE 10.2 (R60).
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

// Structured content lies in one piece of direct memory. Attributes of this size can hold ACLs of
// hundreds of entries.
constexpr size_t kMostContent = DirectBuffers::kLarge;

}  // namespace

dat::Task<void> GetattrDirect(Call& call) {
  wire::GetattrDirectArgs args;
  if (!call.Decode(args)) co_return;
  call.Names({&args.data_buffer, 1});
  Session& session = call.session();
  wire::FileAttributes attributes;
  DafsStatus status = DafsStatus::kServerFault;
  auto get = [&] {
    status = session.store().Getattr(call.caller(), args.filehandle, args.attr_request_bitmap,
                                     &attributes);
  };
  co_await OffloadIf(call.may_hang(), call.pool(), session.loop(), get);
  const size_t size = wire::DirectSize(attributes);
  if (status == DafsStatus::kOk &&
      (size > args.data_buffer.buffer_byte_count || size > kMostContent)) {
    status = DafsStatus::kTooSmall;
  }
  if (status != DafsStatus::kOk) {
    call.FinishError(status);
    co_return;
  }
  DirectLease lease = co_await session.transfers().Acquire(size);
  std::span<std::byte> content = lease.pieces()[0];
  absl::StatusOr<size_t> extent = wire::EncodeDirect(attributes, call.order(), content);
  if (!extent.ok()) {
    call.FinishError(DafsStatus::kServerFault);
    co_return;
  }
  content = content.first(*extent);
  wire::GetattrDirectRes res;
  if (session.terms().checksums())
    res.direct_checksum = wire::ComputeChecksum(content, call.order());
  const std::span<const wire::DirectOpBuffer> buffers(&args.data_buffer, 1);
  const bool written = co_await WriteDirectContent(call, content, buffers, lease);
  call.Finish(written ? DafsStatus::kOk : DafsStatus::kServerFault, args, res);
}

dat::Task<void> ReadlinkDirect(Call& call) {
  wire::ReadlinkDirectArgs args;
  if (!call.Decode(args)) co_return;
  call.Names({&args.buffer, 1});
  Session& session = call.session();
  std::string link;
  DafsStatus status = DafsStatus::kServerFault;
  auto read = [&] { status = session.store().Readlink(call.caller(), args.filehandle, &link); };
  co_await OffloadIf(call.may_hang(), call.pool(), session.loop(), read);
  const size_t size = 4 + link.size();
  if (status == DafsStatus::kOk && size > args.buffer.buffer_byte_count) {
    status = DafsStatus::kTooSmall;
  }
  if (status != DafsStatus::kOk) {
    call.FinishError(status);
    co_return;
  }
  DirectLease lease = co_await session.transfers().Acquire(size);
  std::span<std::byte> content = lease.pieces()[0];
  absl::StatusOr<size_t> extent = wire::EncodeDirectString(link, call.order(), content);
  if (!extent.ok()) {
    call.FinishError(DafsStatus::kServerFault);
    co_return;
  }
  content = content.first(*extent);
  wire::ReadlinkDirectRes res;
  if (session.terms().checksums())
    res.direct_checksum = wire::ComputeChecksum(content, call.order());
  const std::span<const wire::DirectOpBuffer> buffers(&args.buffer, 1);
  const bool written = co_await WriteDirectContent(call, content, buffers, lease);
  call.Finish(written ? DafsStatus::kOk : DafsStatus::kServerFault, args, res);
}

dat::Task<void> SetattrDirect(Call& call) {
  wire::SetattrDirectArgs args;
  if (!call.Decode(args)) co_return;
  Session& session = call.session();
  const size_t size = args.obj_attributes.buffer_byte_count;
  if (size == 0 || size > kMostContent) {
    call.FinishError(size == 0 ? DafsStatus::kInval : DafsStatus::kResource);
    co_return;
  }
  DirectLease lease = co_await session.transfers().Acquire(size);
  const std::span<std::byte> content = lease.pieces()[0];
  const std::span<const wire::DirectOpBuffer> buffers(&args.obj_attributes, 1);
  RemoteRange range(buffers);
  const RdmaOps ops = range.Next(lease.pieces());
  DafsStatus status = co_await ReadFromClient(call, ops);
  if (status == DafsStatus::kOk && session.terms().checksums() &&
      wire::ComputeChecksum(content, call.order()) != args.direct_checksum) {
    status = DafsStatus::kChksum;
  }
  wire::FileAttributes attributes;
  if (status == DafsStatus::kOk && !wire::DecodeDirect(content, call.order(), attributes).ok()) {
    status = DafsStatus::kInval;
  }
  if (status == DafsStatus::kOk) status = wire::CheckSettable(attributes);
  lease.Release();
  wire::SetattrDirectRes res;
  if (status == DafsStatus::kOk) {
    auto set = [&] {
      status = session.store().Setattr(call.caller(), args.filehandle, args.state_id, attributes,
                                       &res.attr_request_bitmap);
    };
    co_await OffloadIf(call.may_hang(), call.pool(), session.loop(), set);
  }
  call.Finish(status, args, res);
}

}  // namespace dafs::server
