#include "fuse/operations/shared/record_lock_owners.h"

#include <memory>

#include "fuse/cache/inode_table.h"

namespace dafs::fuse {

Task<absl::StatusOr<client::LockOwner>> RecordLockOwners::OpenFor(const OpenState& open,
                                                                  LockOwnerRef owner) {
  const uint32_t share = ShareOf(open.flags);
  client::LockOwner known{open.handle, state_.lock_owners.OpenOf(*owner), owner->process};
  client::Files& files = files_.Of(*owner->opener);
  const std::shared_ptr<const client::OpenInfo> info = files.opens().InfoOf(known.state_id);
  if (info != nullptr && (share & ~info->share_access) == 0) co_return known;
  // A process may have a descriptor that another user has opened.
  const bool is_of_opener = files_.AreShared(*open.opener, *owner->opener);
  if (!open.state_id.is_zero() && is_of_opener) {
    absl::StatusOr<wire::StateId> lent =
        co_await files.opens().OpenForOwner(open.state_id, share, owner->name, known.state_id);
    if (lent.ok()) {
      state_.lock_owners.Opened(*owner, *lent);
      known.state_id = *lent;
      co_return known;
    }
    if (!absl::IsUnimplemented(lent.status())) co_return lent.status();
  }
  InodeView node;
  node.nodeid = owner->nodeid;
  node.handle = open.handle;
  Task<absl::StatusOr<client::OpenFile>> opening =
      opens_.Open(is_of_opener ? *open.opener : *owner->opener, node, open.flags, owner->name);
  absl::StatusOr<client::OpenFile> file = co_await opening;
  if (!file.ok()) co_return file.status();
  if (file->state_id.is_zero()) {
    co_return absl::UnimplementedError("lock: the server cannot open the file by its handle");
  }
  state_.lock_owners.Opened(*owner, file->state_id);
  known.state_id = file->state_id;
  co_return known;
}

Task<void> RecordLockOwners::Leave(LockOwnerRef owner) {
  if (!state_.lock_owners.Leave(*owner)) co_return;
  Task<void> closing = Close(owner);
  co_await closing;
}

Task<void> RecordLockOwners::Close(LockOwnerRef owner) {
  const wire::StateId open = state_.lock_owners.OpenOf(*owner);
  absl::Status closed = co_await files_.Of(*owner->opener).opens().Close(open);
  closed.IgnoreError();  // no caller waits for it; the open ends with the lease
  state_.lock_owners.Closed(*owner);
}

Task<void> RecordLockOwners::End(LockOwners::Ended ended) {
  if (ended.owner == nullptr) co_return;
  if (ended.unused) {
    Task<void> closing = Close(ended.owner);
    co_await closing;
    co_return;
  }
  const wire::StateId open = state_.lock_owners.OpenOf(*ended.owner);
  client::Files& files = files_.Of(*ended.owner->opener);
  const std::shared_ptr<const client::OpenInfo> info = files.opens().InfoOf(open);
  if (info == nullptr) co_return;
  absl::Status unlocked =
      co_await files.locks().Unlock(info->user, {info->handle, open}, 0, wire::kFlockByte - 1);
  unlocked.IgnoreError();
}

}  // namespace dafs::fuse
