// Attributes and access. Spec: 6.5.2, 6.5.13, 6.5.35.
#include <utility>

#include "client/files/files.h"
#include "client/recovery/committer.h"
#include "client/recovery/operation.h"
#include "runtime/status_macros.h"

namespace dafs::client {

dat::Task<absl::StatusOr<wire::FileAttributes>> Files::GetAttributes(const Identity& who,
                                                                     const wire::FileHandle& file) {
  StatCall stat(false);
  stat.args.filehandle = file;
  CallBase* const chain[] = {&stat};
  dat::Task<absl::Status> task = RunAll(&who, chain, "get attributes");
  CO_RETURN_IF_ERROR(co_await task);
  co_return stat.Take();
}

dat::Task<bool> Files::DropIfRemoved(wire::FileHandle file) {
  StatCall stat(false);
  stat.args.filehandle = file;
  stat.can_wait = true;
  CallBase* const chain[] = {&stat};
  const Identity self{};
  dat::Task<absl::Status> task = RunAll(&self, chain, "get attributes");
  const absl::Status status = co_await task;
  const wire::FileAttributes attributes = stat.Take();
  const bool removed = status.ok()
                           ? attributes.has(wire::kFattrNumLinks) && attributes.num_links == 0
                           : IsGone(status);
  if (!removed) co_return false;
  client_.uncommitted().Forget(file, 0, UINT64_MAX);
  co_return true;
}

dat::Task<absl::StatusOr<wire::FileAttributes>> Files::SetAttributes(
    const Identity& who, const wire::FileHandle& file, const wire::StateId& state_id,
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
    dat::Task<absl::Status> waiting = committer_->BeginWrite(file);
    CO_RETURN_IF_ERROR(co_await waiting);
  }
  dat::Task<absl::Status> task = RunAll(&who, chain, "set attributes");
  absl::Status status = co_await task;
  if (cuts) {
    if (status.ok()) client_.uncommitted().Forget(file, attributes.object_size, UINT64_MAX);
    client_.uncommitted().EndWrite(file);
  }
  CO_RETURN_IF_ERROR(status);
  co_return stat.Take();
}

dat::Task<absl::StatusOr<uint32_t>> Files::Access(const Identity& who, const wire::FileHandle& file,
                                                  uint32_t access) {
  Call<wire::AccessArgs> call;
  call.args.filehandle = file;
  call.args.access = access;
  CallBase* const chain[] = {&call};
  dat::Task<absl::Status> task = RunAll(&who, chain, "access");
  CO_RETURN_IF_ERROR(co_await task);
  // The server checks bits that it cannot evaluate here when the operation is executed (6.5.2).
  co_return call.res.access | (access & ~call.res.supported);
}

}  // namespace dafs::client
