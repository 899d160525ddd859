// The end of opens by the client: CLOSE, DELEGRETURN, DELEGPURGE. Spec: 6.5.7, 6.5.10, 6.5.11.
#include <cstdint>
#include <span>
#include <string>

#include "server/store/access/return_if_not_ok.h"
#include "server/store/durable/journal.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/open_procedures.h"
#include "server/store/procedures/shared/release_recorded.h"
#include "wire/messages/open_close.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

DafsStatus ReleasePersistent(StoreParts& store, const Caller& caller, const ObjectRef& file,
                             const ObjectKey& key, const std::string& owner) {
  if (!store.persistent_locks.MayConcern(key)) return DafsStatus::kOk;
  absl::MutexLock lock(&store.object_locks.FileLock(key));
  return ReleaseRecorded(store, caller.client_id, file, key, owner,
                         {0, UINT64_MAX, /*write=*/true});
}

}  // namespace

DafsStatus OpenProcedures::Close(const Caller& caller, const wire::CloseArgs& args) {
  if (IsOfAttributes(args.filehandle)) return store_.attributes.Close(caller, args);
  if (!store_.objects.IsGenuine(args.filehandle)) return DafsStatus::kBadHandle;
  OpenRights rights;
  std::string owner;
  STORE_RETURN_IF_NOT_OK(
      store_.opens.Find(caller.client_id, args.state_id, KeyOf(args.filehandle), &rights, &owner));
  if (rights.is_delegation) return DafsStatus::kBadStateId;
  // No open outlives the server: after a restart, a CLOSE that had begun counts as executed.
  if (caller.operation != nullptr) {
    Intent& intent = caller.operation->Prepare();
    intent.object = args.filehandle;
    intent.value = Grace::SumOf(owner);
    caller.operation->Begin();
  }
  // The client is done with its PERSIST locks. Every other end of an open makes them breakable.
  DafsStatus status =
      ReleasePersistent(store_, caller, rights.object, KeyOf(args.filehandle), owner);
  if (status == DafsStatus::kOk) {
    status = store_.releases.CloseOpen(caller.client_id, args.state_id, KeyOf(args.filehandle),
                                       caller.closed);
  }
  if (caller.operation != nullptr) caller.operation->Done(status, std::span<const int>());
  return status;
}

DafsStatus OpenProcedures::Delegreturn(const Caller& caller, const wire::DelegreturnArgs& args) {
  ObjectKey key;
  STORE_RETURN_IF_NOT_OK(store_.opens.FindDelegation(caller.client_id, args.state_id, &key));
  return store_.releases.CloseOpen(caller.client_id, args.state_id, key, caller.closed);
}

DafsStatus OpenProcedures::Delegpurge(const Caller& caller, const wire::DelegpurgeArgs&) {
  store_.admitted_clients.Admit(caller.client_id, caller.client_name);
  store_.delegation_claims.Purge(caller.client_id);
  if (store_.grace.active()) store_.grace.OpensReclaimed(caller);
  return DafsStatus::kOk;
}

}  // namespace dafs::server
