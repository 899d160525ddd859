#include "client/files/names/acls.h"

#include <utility>
#include <vector>

#include "client/files/shared/transfer_policy.h"
#include "client/recovery/calls/data_calls.h"
#include "client/recovery/calls/operation.h"
#include "client/state/xattrs.h"
#include "runtime/status_macros.h"

namespace dafs::client {

using wire::DafsStatus;

namespace {

using GetattrDirectCall =
    DirectCall<wire::GetattrDirectArgs, &wire::GetattrDirectArgs::data_buffer>;
using SetattrDirectCall =
    DirectCall<wire::SetattrDirectArgs, &wire::SetattrDirectArgs::obj_attributes,
               &wire::SetattrDirectArgs::direct_checksum>;

}  // namespace

Task<absl::StatusOr<std::vector<wire::Ace>>> AclOperations::GetAcl(const Identity& user,
                                                                   const wire::FileHandle& file) {
  constexpr std::string_view kWhat = "get ACL";
  Call<wire::GetattrInlineArgs> get;
  get.args.filehandle = file;
  get.args.attr_request_bitmap = wire::kFattrAcl;
  CallBase* const chain[] = {&get};
  Task<absl::Status> task = Run(&user, chain);
  CO_RETURN_IF_ERROR(co_await task);
  wire::FileAttributes attributes;
  if (get.ok()) {
    attributes = std::move(get.res.obj_attributes);
  } else if (get.status == DafsStatus::kTooSmall) {  // the ACL is too large for a response
    Task<absl::StatusOr<wire::FileAttributes>> direct = GetAclDirect(user, file);
    absl::StatusOr<wire::FileAttributes> found = co_await direct;
    if (!found.ok()) co_return found.status();
    attributes = *std::move(found);
  } else {
    co_return StatusOf(get, kWhat);
  }
  if (!attributes.has(wire::kFattrAcl)) {
    co_return wire::StatusFromDafs(DafsStatus::kNotSupp, kWhat);
  }
  co_return std::move(attributes.acl);
}

Task<absl::StatusOr<wire::FileAttributes>> AclOperations::GetAclDirect(
    const Identity& user, const wire::FileHandle& file) {
  absl::StatusOr<BufferLease> lease = co_await buffers_.Acquire(BufferUse::kReadTarget, kXattrMost);
  if (!lease.ok()) co_return lease.status();
  LeasePart part{&buffers_, &*lease, 0, lease->payload_bytes()};
  GetattrDirectCall get(part);
  get.args.filehandle = file;
  get.args.attr_request_bitmap = wire::kFattrAcl;
  CallBase* const chain[] = {&get};
  Task<absl::Status> task = RunAll(&user, chain, "get ACL");
  CO_RETURN_IF_ERROR(co_await task);
  const wire::ByteOrder order = client_.options().byte_order;
  wire::FileAttributes attributes;
  absl::StatusOr<size_t> extent = wire::DecodeDirect(part.bytes(), order, attributes);
  if (!extent.ok()) co_return extent.status();
  if (client_.options().checksums &&
      wire::ComputeChecksum(part.bytes().first(*extent), order) != get.res.direct_checksum) {
    co_return absl::DataLossError("get ACL: data with a wrong checksum");
  }
  co_return attributes;
}

Task<absl::Status> AclOperations::SetAcl(const Identity& user, const wire::FileHandle& file,
                                         std::vector<wire::Ace> acl) {
  // The ACL decides who may open the file.
  const bool delegations = client_.options().delegations;
  if (delegations) client_.delegations().StopLocalOpens(file);
  Task<absl::Status> task = SendAcl(user, file, std::move(acl));
  absl::Status status = co_await task;
  if (delegations) client_.delegations().StopLocalOpens(file);
  co_return status;
}

Task<absl::Status> AclOperations::SendAcl(const Identity& user, const wire::FileHandle& file,
                                          std::vector<wire::Ace> acl) {
  constexpr std::string_view kWhat = "set ACL";
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrAcl);
  attributes.acl = std::move(acl);
  const size_t size = wire::DirectSize(attributes);
  if (size <= transfers_.InlineWriteRoom()) {
    Call<wire::SetattrInlineArgs> set;
    set.args.filehandle = file;
    set.args.obj_attributes = std::move(attributes);
    CallBase* const chain[] = {&set};
    Task<absl::Status> task = RunAll(&user, chain, kWhat);
    absl::Status status = co_await task;
    co_return status;
  }
  if (size > buffers_.large_bytes()) co_return wire::StatusFromDafs(DafsStatus::kInval, kWhat);
  const auto bytes = static_cast<uint32_t>(size);
  absl::StatusOr<BufferLease> lease = co_await buffers_.Acquire(BufferUse::kWriteSource, bytes);
  if (!lease.ok()) co_return lease.status();
  LeasePart part{&buffers_, &*lease, 0, bytes};
  absl::StatusOr<size_t> extent =
      wire::EncodeDirect(attributes, client_.options().byte_order, part.bytes());
  if (!extent.ok()) co_return extent.status();
  part.size = static_cast<uint32_t>(*extent);
  SetattrDirectCall set(part);
  set.args.filehandle = file;
  CallBase* const chain[] = {&set};
  Task<absl::Status> task = RunAll(&user, chain, kWhat);
  absl::Status status = co_await task;
  co_return status;
}

}  // namespace dafs::client
