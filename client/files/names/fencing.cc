#include "client/files/names/fencing.h"

#include <utility>

#include "client/recovery/calls/operation.h"
#include "runtime/status_macros.h"

namespace dafs::client {

Task<absl::StatusOr<std::vector<std::string>>> FenceOperations::GetFence(
    const Identity& user, const wire::FileHandle& file) {
  Call<wire::GetFencingListArgs> get;
  get.args.filehandle = file;
  CallBase* const chain[] = {&get};
  Task<absl::Status> task = RunAll(&user, chain, "get the fencing list");
  CO_RETURN_IF_ERROR(co_await task);
  co_return std::move(get.res.fence_list);
}

Task<absl::Status> FenceOperations::SetFence(const Identity& user, const wire::FileHandle& file,
                                             const FenceChange& change) {
  Call<wire::SetFencingListArgs> set;
  set.args.filehandle = file;
  set.args.object = change.object;
  set.args.access = change.access;
  set.args.update = change.update;
  set.args.fence_list = change.ids;
  CallBase* const chain[] = {&set};
  Task<absl::Status> task = RunAll(&user, chain, "set the fencing list");
  absl::Status status = co_await task;
  co_return status;
}

}  // namespace dafs::client
