#include "server/store/parts/releases.h"

#include <sys/stat.h>

#include <string>
#include <vector>

#include "runtime/loop/loop.h"
#include "server/store/access/return_if_not_ok.h"
#include "server/store/parts/store_parts.h"
#include "server/store/system/identity.h"
#include "server/store/system/statx.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Reports the end of a close to Promises. The removal of the orphan's link changes the ctime, so it
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
  StoreParts& store;
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

void Releases::ReleaseLocks(const wire::ClientId& client_id, const ObjectKey& key,
                            const Closed& closed) {
  const LockOwner owner{client_id, closed.owner};
  const LockCount count(store_.locks, key, owner, closed.holdings);
  store_.persistent_locks.Fail(client_id, key, closed.owner);
  store_.locks.Release(key, owner);
}

DafsStatus Releases::CloseOpen(const wire::ClientId& client_id, const wire::StateId& state_id,
                               const ObjectKey& key, OpenUse* use) {
  const LockNoticesAtExit sending(store_.lock_notices);
  absl::MutexLock lock(&store_.object_locks.FileLock(key));
  return CloseLocked(client_id, state_id, key, use);
}

DafsStatus Releases::CloseLocked(const wire::ClientId& client_id, const wire::StateId& state_id,
                                 const ObjectKey& key, OpenUse* use) {
  Closed closed;
  STORE_RETURN_IF_NOT_OK(store_.opens.Close(client_id, state_id, key, &closed));
  if (use != nullptr) *use = closed.use;
  const WriteEnd write_end{store_.promises, client_id, key, closed};
  const DelegationEnd delegation_end{store_, state_id, key, closed};
  if (!closed.is_delegation) ReleaseLocks(client_id, key, closed);
  if (!closed.last_open && !closed.last_write) return DafsStatus::kOk;
  ObjectRef object = closed.object != nullptr ? closed.object : store_.cache.Find(key);
  if (object == nullptr) return DafsStatus::kOk;
  if (closed.last_write) object->DropWriteFd();
  if (!closed.last_open) return DafsStatus::kOk;
  struct statx stx;
  const bool has_stat = Statx(object->path_fd(), &stx) == 0;
  if (object->orphaned() && has_stat && stx.stx_nlink == 1 && store_.grace.active() &&
      store_.grace.expects_opens(key)) {
    store_.kept_orphans.Leave(*object);
  } else if (object->orphaned()) {
    store_.kept_orphans.Of(object->fs()).Unlink(*object);
    if (has_stat && stx.stx_nlink <= 1) store_.cache.Erase(key);
  } else if (has_stat && stx.stx_nlink == 0) {
    store_.cache.Erase(key);
  }
  return DafsStatus::kOk;
}

void Releases::RevokeDelegation(const Delegation& delegation) {
  if (store_.delegation_claims.End(delegation.state_id)) return;
  store_.opens.RevokeDelegation(delegation.state_id);
  CloseOpen(delegation.client_id, delegation.state_id, delegation.key);
}

void Releases::CloseUnknown(const OpenDoubts::Doubt& doubt) {
  RestoreOwnIdentity();
  CloseOpen(doubt.client_id, doubt.state_id, doubt.key);
}

bool Releases::RevokeOwner(const ObjectKey& file, const wire::ClientId& client_id,
                           std::string_view owner) {
  RestoreOwnIdentity();
  for (const auto& [state_id, key] : store_.opens.OpensOf(client_id)) {
    OpenRights rights;
    std::string found;
    if (key != file ||
        store_.opens.Find(client_id, state_id, key, &rights, &found) != DafsStatus::kOk ||
        rights.is_delegation || found != owner) {
      continue;
    }
    store_.opens.Revoke(client_id);
    return CloseOpen(client_id, state_id, key) == DafsStatus::kOk;
  }
  return false;
}

void Releases::RevokeExpired(const Delegation& delegation) { RevokeExpired(delegation.key); }

void Releases::SupersedeClient(const wire::ClientId& from, const wire::ClientId& to,
                               std::string_view name) {
  store_.delegation_claims.Supersede(from, to, name, Loop::Now() + store_.options.lease_time);
  ReleaseClient(from);
}

void Releases::ReleaseExcept(const wire::ClientId& client_id, std::optional<size_t> here) {
  store_.attributes.ReleaseClient(client_id);
  store_.admitted_clients.Forget(client_id);
  absl::flat_hash_set<size_t> elsewhere;
  for (const auto& [state_id, key] : store_.opens.OpensOf(client_id)) {
    const std::optional<size_t> index = store_.mounts->ExportThatMayHang(key.fshandle());
    if (!index || index == here || !store_.threads.HandsOver(*index)) {
      CloseOpen(client_id, state_id, key);
    } else {
      elsewhere.insert(*index);
    }
  }
  for (const size_t index : elsewhere) {
    {
      absl::MutexLock lock(&mutex_);
      if (!under_way_.emplace(client_id, index).second) continue;
    }
    store_.threads.Run(index, [this, client_id, index] { ReleaseInExport(client_id, index); });
  }
}

void Releases::ReleaseInExport(const wire::ClientId& client_id, size_t export_index) {
  for (const auto& [state_id, key] : store_.opens.OpensOf(client_id)) {
    if (store_.mounts->ExportOf(key.fshandle()) == export_index)
      CloseOpen(client_id, state_id, key);
  }
  absl::MutexLock lock(&mutex_);
  under_way_.erase({client_id, export_index});
}

void Releases::ReleaseClient(const wire::ClientId& client_id) {
  ReleaseExcept(client_id, std::nullopt);
}

void Releases::ExpireClient(const wire::ClientId& client_id) {
  store_.opens.Revoke(client_id);
  ReleaseExcept(client_id, std::nullopt);
}

bool Releases::RevokeExpired(const ObjectKey& key) {
  const std::vector<wire::ClientId> expired = store_.opens.ExpiredHolders(key);
  for (const wire::ClientId& client_id : expired) {
    store_.opens.Revoke(client_id);
    ReleaseExcept(client_id, store_.mounts->ExportThatMayHang(key.fshandle()));
  }
  return !expired.empty();
}

DafsStatus Releases::CheckDenied(const ObjectKey& key, uint32_t access,
                                 const wire::StateId& state_id) {
  DafsStatus status = DafsStatus::kOk;
  do {
    status = store_.opens.CheckDenied(key, access, state_id);
  } while (status == DafsStatus::kDenied && RevokeExpired(key));
  return status;
}

}  // namespace dafs::server
