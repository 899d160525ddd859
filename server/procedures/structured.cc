// Direct variants of procedures that move attributes or the content of a link: GETATTR_DIRECT,
// READLINK_DIRECT, SETATTR_DIRECT.
// Spec: 6.5.14, 6.5.32, 6.5.36; WIRE 10.2 (R60).
#include "server/procedures/direct_transfer.h"
#include "server/procedures/handler.h"
#include "server/session/transfer/direct_buffers.h"
#include "server/store/holdings/delegations/delegations.h"
#include "wire/codec/checksum.h"
#include "wire/codec/direct.h"
#include "wire/rules/argument_rules.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

// Structured content lies in one piece of direct memory. Attributes of this size can hold ACLs of
// hundreds of entries.
constexpr size_t kMostContent = DirectBuffers::kLarge;

// Finishes the call with content of `size` bytes, which `encode` writes. TOOSMALL: it does not fit
// into `buffer`.
template <class Args, class Encode>
Task<void> FinishWithContent(Call& call, const Args& args, const wire::DirectOpBuffer& buffer,
                             size_t size, const Encode& encode) {
  Session& session = call.session();
  if (size > buffer.buffer_byte_count || size > kMostContent) {
    call.FinishError(DafsStatus::kTooSmall);
    co_return;
  }
  DirectLease lease = co_await session.transfers().Acquire(size);
  std::span<std::byte> content = lease.pieces()[0];
  absl::StatusOr<size_t> extent = encode(content);
  if (!extent.ok()) {
    call.FinishError(DafsStatus::kServerFault);
    co_return;
  }
  content = content.first(*extent);
  wire::ResOf<Args> res;
  if (session.terms().checksums())
    res.direct_checksum = wire::ComputeChecksum(content, call.order());
  const bool written = co_await WriteDirectContent(call, content, {&buffer, 1}, lease);
  call.Finish(written ? DafsStatus::kOk : DafsStatus::kServerFault, args, res);
}

Task<void> GetattrDirect(Call& call) {
  wire::GetattrDirectArgs args;
  if (!call.Decode(args)) co_return;
  call.Names({&args.data_buffer, 1});
  wire::FileAttributes attributes;
  DafsStatus status = DafsStatus::kServerFault;
  auto get = [&] {
    const FencedSession::Access access(call.caller().fence);
    status = call.session().store().attributes().Getattr(call.caller(), args.filehandle,
                                                         args.attr_request_bitmap, &attributes);
    if (status == DafsStatus::kOk)
      status = NameOwners(call.session().shared().ids, attributes, call.caller().promises);
  };
  const bool may_await = call.session().store().delegations().any_write();
  if (may_await) call.BeginModification();
  co_await OffloadIf(call.may_hang(), call.pool(), call.session().loop(), get);
  if (may_await && call.modification()->MustCall(status)) {
    Task<void> repeating = internal::CallAndRepeat(call, *call.modification(), call.may_hang(),
                                                   call.pool(), &status, get);
    co_await repeating;
  }
  if (status != DafsStatus::kOk) {
    call.FinishError(status);
    co_return;
  }
  auto encode = [&](std::span<std::byte> out) {
    return wire::EncodeDirect(attributes, call.order(), out);
  };
  co_await FinishWithContent(call, args, args.data_buffer, wire::DirectSize(attributes), encode);
}

Task<void> ReadlinkDirect(Call& call) {
  wire::ReadlinkDirectArgs args;
  if (!call.Decode(args)) co_return;
  call.Names({&args.buffer, 1});
  std::string link;
  DafsStatus status = DafsStatus::kServerFault;
  auto read = [&] {
    const FencedSession::Access access(call.caller().fence);
    status = call.session().store().names().Readlink(call.caller(), args.filehandle, &link);
  };
  co_await OffloadIf(call.may_hang(), call.pool(), call.session().loop(), read);
  if (status != DafsStatus::kOk) {
    call.FinishError(status);
    co_return;
  }
  auto encode = [&](std::span<std::byte> out) {
    return wire::EncodeDirectString(link, call.order(), out);
  };
  co_await FinishWithContent(call, args, args.buffer, 4 + link.size(), encode);
}

Task<void> SetattrDirect(Call& call) {
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
  DafsStatus status = co_await FetchData(session, lease, buffers, args.direct_checksum);
  if (status == DafsStatus::kServerFault) call.CutShort();
  wire::FileAttributes attributes;
  if (status == DafsStatus::kOk && !wire::DecodeDirect(content, call.order(), attributes).ok()) {
    status = DafsStatus::kInval;
  }
  if (status == DafsStatus::kOk) status = wire::CheckSettable(attributes);
  if (status == DafsStatus::kOk) status = NumberOwners(session.shared().ids, attributes);
  lease.Release();
  wire::SetattrDirectRes res;
  if (status == DafsStatus::kOk) {
    auto set = [&] {
      const FencedSession::Access access(call.caller().fence);
      status = session.store().attributes().Setattr(call.caller(), args.filehandle, args.state_id,
                                                    attributes, &res.attr_request_bitmap);
    };
    Modification& modification = call.BeginModification();
    // It may save what it cuts off under an AUTORECOVERY lock.
    const bool may_wait =
        call.may_hang() || (attributes.has(wire::kFattrObjectSize) &&
                            session.store().locks().ReleaseMayWait(args.filehandle));
    co_await OffloadIf(may_wait, call.pool(), session.loop(), set);
    if (modification.MustCall(status)) {
      Task<void> repeating =
          internal::CallAndRepeat(call, modification, may_wait, call.pool(), &status, set);
      co_await repeating;
    }
  }
  call.Finish(status, args, res);
}

}  // namespace

constexpr Procedure kGetattrDirectHandler = {.start = GetattrDirect};
constexpr Procedure kReadlinkDirectHandler = {.start = ReadlinkDirect};
constexpr Procedure kSetattrDirectHandler = {.start = SetattrDirect};

}  // namespace dafs::server
