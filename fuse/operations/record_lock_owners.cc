#include "fuse/operations/record_lock_owners.h"

#include "fuse/cache/inode_table.h"

namespace dafs::fuse {

Task<absl::StatusOr<client::LockOwner>> RecordLockOwners::OpenFor(const OpenState& open,
                                                                  LockOwnerRef owner) {
  const uint32_t share = ShareOf(open.flags);
  LockOwners::Open known = state_.lock_owners.OpenOf(*owner);
  if (known.state_id.is_zero() || (share & ~known.share) != 0) {
    const client::Identity& who = *open.opener;
    if (!open.state_id.is_zero()) {
      absl::StatusOr<wire::StateId> lent = co_await files_.opens().OpenForOwner(
          who, owner->handle, open.state_id, share, owner->name);
      if (lent.ok()) {
        state_.lock_owners.Opened(*owner, *lent, share);
        co_return client::LockOwner{owner->handle, *lent, owner->kernel_owner};
      }
      if (!absl::IsUnimplemented(lent.status())) co_return lent.status();
    }
    InodeView node;
    node.nodeid = owner->nodeid;
    node.handle = owner->handle;
    Task<absl::StatusOr<client::OpenFile>> opening =
        opens_.Open(who, node, open.flags, owner->name);
    absl::StatusOr<client::OpenFile> file = co_await opening;
    if (!file.ok()) co_return file.status();
    if (file->state_id.is_zero()) {
      co_return absl::UnimplementedError("lock: the server cannot open the file by its handle");
    }
    known.state_id = file->state_id;
    state_.lock_owners.Opened(*owner, known.state_id, share);
  }
  co_return client::LockOwner{owner->handle, known.state_id, owner->kernel_owner};
}

Task<void> RecordLockOwners::Leave(LockOwnerRef owner) {
  if (!state_.lock_owners.Leave(*owner)) co_return;
  Task<void> closing = Close(owner);
  co_await closing;
}

Task<void> RecordLockOwners::Close(LockOwnerRef owner) {
  const wire::StateId state_id = state_.lock_owners.OpenOf(*owner).state_id;
  absl::Status closed = co_await files_.opens().Close(*owner->opener, owner->handle, state_id);
  closed.IgnoreError();  // no caller waits for it; the open ends with the lease
}

Task<void> RecordLockOwners::End(LockOwners::Ended ended) {
  if (ended.owner == nullptr) co_return;
  if (ended.unused) {
    Task<void> closing = Close(ended.owner);
    co_await closing;
    co_return;
  }
  const client::LockOwner open{ended.owner->handle,
                               state_.lock_owners.OpenOf(*ended.owner).state_id};
  if (open.state_id.is_zero()) co_return;
  absl::Status unlocked =
      co_await files_.locks().Unlock(*ended.owner->opener, open, 0, wire::kFlockByte - 1);
  unlocked.IgnoreError();
}

}  // namespace dafs::fuse
