// The end of opens: CLOSE, the end of a client, an expired lease. Spec: 6.5.7, 4.4.1.2.
#include <sys/stat.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/loop.h"
#include "server/store/attributes/attributes.h"
#include "server/store/store_impl.h"
#include "wire/messages/open_close.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Tells Promises at the end of a close. The removal of the orphan's link changes the ctime, so it
// comes before others may be promised the attributes.
struct WriteEnd {
  Promises& promises;
  const wire::ClientId& client_id;
  const ObjectKey& key;
  const Closed& closed;

  ~WriteEnd() {
    if (closed.wrote) promises.ClosedToWrite(key, client_id);
  }
};

// Lets the requests and the local programs go on that wait for the end of a delegation.
struct DelegationEnd {
  StoreImpl& store;
  const wire::StateId& state_id;
  const ObjectKey& key;
  const Closed& closed;

  ~DelegationEnd() {
    if (!closed.is_delegation) return;
    store.delegations.Remove(state_id);
    if (!store.delegations.Has(key)) store.leases.End(key);
  }
};

}  // namespace

void StoreImpl::ReleaseLocks(const wire::ClientId& client_id, const ObjectKey& key,
                             const Closed& closed) {
  const LockOwner owner{client_id, closed.owner};
  const LockCount count(locks, key, owner, closed.holdings);
  locks.Release(key, owner);
}

DafsStatus StoreImpl::CloseOpen(const wire::ClientId& client_id, const wire::StateId& state_id,
                                const ObjectKey& key) {
  const WaitersTold telling(*this);
  absl::MutexLock lock(&FileLock(key));
  return CloseLocked(client_id, state_id, key);
}

DafsStatus StoreImpl::CloseLocked(const wire::ClientId& client_id, const wire::StateId& state_id,
                                  const ObjectKey& key) {
  Closed closed;
  STORE_RETURN_IF_NOT_OK(opens.Close(client_id, state_id, key, &closed));
  const WriteEnd write_end{promises, client_id, key, closed};
  const DelegationEnd delegation_end{*this, state_id, key, closed};
  if (!closed.is_delegation) ReleaseLocks(client_id, key, closed);
  if (!closed.last_open && !closed.last_write) return DafsStatus::kOk;
  ObjectRef object = closed.object != nullptr ? closed.object : cache.Find(key);
  if (object == nullptr) return DafsStatus::kOk;
  if (closed.last_write) object->DropWriteFd();
  if (!closed.last_open) return DafsStatus::kOk;
  struct statx stx;
  const bool has_stat = Statx(object->path_fd(), &stx) == 0;
  if (object->orphaned() && has_stat && stx.stx_nlink == 1 && grace.active() &&
      grace.expects_opens(key)) {
    Orphans& orphans = OrphansOf(object->fs());
    orphans.Leave(*object);
    // If the period has ended since the check, its sweep may be over already.
    if (!KeepsOrphans(object->fs())) SweepEnded(orphans);
  } else if (object->orphaned()) {
    OrphansOf(object->fs()).Unlink(*object);
    if (has_stat && stx.stx_nlink <= 1) cache.Erase(key);
  } else if (has_stat && stx.stx_nlink == 0) {
    cache.Erase(key);
  }
  return DafsStatus::kOk;
}

DafsStatus Store::Close(const Caller& caller, const wire::CloseArgs& args) {
  if (IsOfAttributes(args.filehandle)) return impl_->attributes.Close(caller, args);
  if (!impl_->IsGenuine(args.filehandle)) return DafsStatus::kBadHandle;
  OpenRights rights;
  std::string owner;
  STORE_RETURN_IF_NOT_OK(
      impl_->opens.Find(caller.client_id, args.state_id, KeyOf(args.filehandle), &rights, &owner));
  if (rights.is_delegation) return DafsStatus::kBadStateId;
  // No open outlives the server: after a restart, a CLOSE that had begun counts as executed.
  if (caller.operation != nullptr) {
    Intent& intent = caller.operation->Prepare();
    intent.object = args.filehandle;
    intent.value = Grace::SumOf(owner);
    caller.operation->Begin();
  }
  const DafsStatus status =
      impl_->CloseOpen(caller.client_id, args.state_id, KeyOf(args.filehandle));
  if (caller.operation != nullptr) caller.operation->Done(status, std::span<const int>());
  return status;
}

DafsStatus Store::Delegreturn(const Caller& caller, const wire::DelegreturnArgs& args) {
  ObjectKey key;
  STORE_RETURN_IF_NOT_OK(impl_->opens.FindDelegation(caller.client_id, args.state_id, &key));
  return impl_->CloseOpen(caller.client_id, args.state_id, key);
}

DafsStatus Store::Delegpurge(const Caller& caller, const wire::DelegpurgeArgs&) {
  impl_->delegations.Admit(caller.client_id, caller.client_name);
  impl_->delegations.Purge(caller.client_id);
  if (impl_->grace.active()) impl_->grace.OpensReclaimed(caller);
  return DafsStatus::kOk;
}

void Store::RevokeDelegation(const Delegations::Delegation& delegation) {
  if (impl_->delegations.EndClaim(delegation.state_id)) return;
  impl_->opens.RevokeDelegation(delegation.state_id);
  impl_->CloseOpen(delegation.client_id, delegation.state_id, delegation.key);
}

bool Store::RevokeOwner(const ObjectKey& file, const wire::ClientId& client_id,
                        std::string_view owner) {
  RestoreOwnIdentity();
  for (const auto& [state_id, key] : impl_->opens.OpensOf(client_id)) {
    OpenRights rights;
    std::string found;
    if (key != file ||
        impl_->opens.Find(client_id, state_id, key, &rights, &found) != DafsStatus::kOk ||
        rights.is_delegation || found != owner) {
      continue;
    }
    impl_->opens.Revoke(client_id);
    return impl_->CloseOpen(client_id, state_id, key) == DafsStatus::kOk;
  }
  return false;
}

void Store::RevokeExpired(const Delegations::Delegation& delegation) {
  impl_->RevokeExpired(delegation.key);
}

void Store::SupersedeClient(const wire::ClientId& from, const wire::ClientId& to,
                            std::string_view name) {
  impl_->delegations.Supersede(from, to, name, Loop::Now() + impl_->options.lease_time);
  ReleaseClient(from);
}

void StoreImpl::ReleaseClient(const wire::ClientId& client_id, std::optional<size_t> here) {
  attributes.ReleaseClient(client_id);
  delegations.Forget(client_id);
  absl::flat_hash_set<size_t> elsewhere;
  for (const auto& [state_id, key] : opens.OpensOf(client_id)) {
    const std::optional<size_t> index = mounts->ExportThatMayHang(key.fshandle());
    if (run_for_export == nullptr || !index || index == here) {
      CloseOpen(client_id, state_id, key);
    } else {
      elsewhere.insert(*index);
    }
  }
  for (const size_t index : elsewhere) {
    {
      absl::MutexLock lock(&releasing_mutex_);
      if (!releasing_.emplace(client_id, index).second) continue;
    }
    run_for_export(index, [this, client_id, index] { ReleaseInExport(client_id, index); });
  }
}

void StoreImpl::ReleaseInExport(const wire::ClientId& client_id, size_t export_index) {
  for (const auto& [state_id, key] : opens.OpensOf(client_id)) {
    if (mounts->ExportOf(key.fshandle()) == export_index) CloseOpen(client_id, state_id, key);
  }
  absl::MutexLock lock(&releasing_mutex_);
  releasing_.erase({client_id, export_index});
}

void Store::SetRunForExport(RunForExport run) { impl_->run_for_export = std::move(run); }

void Store::ReleaseClient(const wire::ClientId& client_id) { impl_->ReleaseClient(client_id); }

void Store::ExpireClient(const wire::ClientId& client_id) {
  impl_->opens.Revoke(client_id);
  impl_->ReleaseClient(client_id);
}

bool StoreImpl::RevokeExpired(const ObjectKey& key) {
  const std::vector<wire::ClientId> expired = opens.ExpiredHolders(key);
  for (const wire::ClientId& client_id : expired) {
    opens.Revoke(client_id);
    ReleaseClient(client_id, mounts->ExportThatMayHang(key.fshandle()));
  }
  return !expired.empty();
}

DafsStatus StoreImpl::CheckDenied(const ObjectKey& key, uint32_t access,
                                  const wire::StateId& state_id) {
  DafsStatus status = DafsStatus::kOk;
  do {
    status = opens.CheckDenied(key, access, state_id);
  } while (status == DafsStatus::kDenied && RevokeExpired(key));
  return status;
}

}  // namespace dafs::server
