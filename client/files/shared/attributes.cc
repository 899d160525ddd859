#include "client/files/shared/attributes.h"

#include <optional>
#include <utility>

#include "client/recovery/calls/operation.h"
#include "client/recovery/committer.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

// They decide which users may open the file.
constexpr uint64_t kRights = wire::kFattrMode | wire::kFattrOwner | wire::kFattrOwnerGroup;

constexpr uint64_t kStatFsAttributes =
    wire::kFsattrMaxName | wire::kFsattrFilesAvailable | wire::kFsattrFilesFree |
    wire::kFsattrFilesTotal | wire::kFsattrSpaceAvailable | wire::kFsattrSpaceFree |
    wire::kFsattrSpaceTotal | wire::kFsattrPrefIoSize | wire::kFsattrMaxFileSize |
    wire::kFsattrMaxLink | wire::kFsattrFshandle | wire::kFsattrMaxRead | wire::kFsattrMaxWrite |
    wire::kFsattrMaxAppend | wire::kFsattrLeaseTime;

}  // namespace

Task<absl::StatusOr<Attributes>> AttributeOperations::GetAttributes(const Identity& user,
                                                                    const wire::FileHandle& file) {
  StatCall stat(false);
  stat.args.filehandle = file;
  CallBase* const chain[] = {&stat};
  Task<absl::Status> task = RunAll(&user, chain, "get attributes");
  CO_RETURN_IF_ERROR(co_await task);
  co_return stat.Take();
}

Task<absl::StatusOr<Attributes>> AttributeOperations::SetAttributes(
    const Identity& user, const wire::FileHandle& file, const wire::StateId& state_id,
    const wire::FileAttributes& attributes) {
  Call<wire::SetattrInlineArgs> set;
  StatCall stat;
  set.args.filehandle = file;
  set.args.state_id = state_id;
  set.args.obj_attributes = attributes;
  CallBase* const chain[] = {&set, &stat};
  const bool cuts = attributes.has(wire::kFattrObjectSize);
  // Counts as a write: a concurrent rewrite of kept data could otherwise land beyond the new end.
  if (cuts && !client_.uncommitted().BeginWrite(file)) {
    Task<absl::Status> waiting = committer_.BeginWrite(file);
    CO_RETURN_IF_ERROR(co_await waiting);
  }
  const bool changes_rights = client_.options().delegations && (attributes.valid & kRights) != 0;
  if (changes_rights) {
    const bool sets_mode = attributes.has(wire::kFattrMode);
    client_.delegations().RightsChange(
        file, user, sets_mode ? std::optional(attributes.mode) : std::nullopt, nullptr);
  }
  if (cuts && client_.options().delegations) client_.delegations().LeaseEnds(file);
  Task<absl::Status> task = RunAll(&user, chain, "set attributes");
  absl::Status status = co_await task;
  if (changes_rights && status.ok()) {
    const wire::FileAttributes& after = stat.res.obj_attributes;
    client_.delegations().RightsChange(file, user, after.mode, &after.owner);
  } else if (changes_rights) {
    client_.delegations().StopLocalOpens(file);
  }
  if (cuts) {
    if (status.ok()) client_.uncommitted().Forget(file, attributes.object_size, UINT64_MAX);
    client_.uncommitted().EndWrite(file);
  }
  CO_RETURN_IF_ERROR(status);
  co_return stat.Take();
}

Task<absl::StatusOr<uint32_t>> AttributeOperations::Access(const Identity& user,
                                                           const wire::FileHandle& file,
                                                           uint32_t access) {
  Call<wire::AccessArgs> call;
  call.args.filehandle = file;
  call.args.access = access;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = RunAll(&user, chain, "access");
  CO_RETURN_IF_ERROR(co_await task);
  // The server checks bits that it cannot evaluate here when the operation is executed (6.5.2).
  co_return call.res.access | (access & ~call.res.supported);
}

Task<absl::StatusOr<bool>> AttributeOperations::Verify(const Identity& user,
                                                       const wire::FileHandle& file,
                                                       const wire::FileAttributes& attributes) {
  Call<wire::VerifyArgs> call;
  call.args.filehandle = file;
  call.args.obj_attributes = attributes;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = Run(&user, chain);
  CO_RETURN_IF_ERROR(co_await task);
  if (call.status == wire::DafsStatus::kNotSame) co_return false;
  if (!call.ok()) co_return StatusOf(call, "verify");
  co_return true;
}

Task<absl::StatusOr<bool>> AttributeOperations::NVerify(const Identity& user,
                                                        const wire::FileHandle& file,
                                                        const wire::FileAttributes& attributes) {
  Call<wire::NverifyArgs> call;
  call.args.filehandle = file;
  call.args.obj_attributes = attributes;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = Run(&user, chain);
  CO_RETURN_IF_ERROR(co_await task);
  if (call.status == wire::DafsStatus::kSame) co_return true;
  if (!call.ok()) co_return StatusOf(call, "nverify");
  co_return false;
}

Task<absl::StatusOr<wire::FsAttributes>> AttributeOperations::StatFs(const Identity& user,
                                                                     const wire::FileHandle& file) {
  Call<wire::GetFsattrArgs> call;
  call.args.filehandle = file;
  call.args.attr_request_bitmap = kStatFsAttributes;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = RunAll(&user, chain, "statfs");
  CO_RETURN_IF_ERROR(co_await task);
  co_return std::move(call.res.obj_attributes);
}

Task<void> AttributeOperations::FetchLocations() {
  const Identity self{};
  for (const wire::FileHandle& file : client_.failover().TakeDue()) {
    Call<wire::GetFsattrArgs> call;
    call.args.filehandle = file;
    call.args.attr_request_bitmap = wire::kFsattrFailoverLocations;
    CallBase* const chain[] = {&call};
    Task<absl::Status> task = Run(&self, chain);
    const absl::Status status = co_await task;
    if (absl::IsCancelled(status)) co_return;
    const wire::FsAttributes& fs = call.res.obj_attributes;
    if (status.ok() && call.ok() && fs.has(wire::kFsattrFailoverLocations)) {
      client_.failover().Fetched(file, fs.failover_locations);
    } else if (call.status == wire::DafsStatus::kStale ||
               call.status == wire::DafsStatus::kBadHandle) {
      client_.failover().NotFetched(file);
    }
  }
  client_.failover().EndFetch();
}

}  // namespace dafs::client
