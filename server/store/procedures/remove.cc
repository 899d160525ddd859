// REMOVE. Spec: 6.5.33.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "server/store/access/act_as.h"
#include "server/store/access/locks/fence_check.h"
#include "server/store/procedures/name_procedures.h"
#include "server/store/procedures/removal.h"
#include "server/store/system/errno_status.h"
#include "wire/messages/namespace.h"

namespace dafs::server {

using wire::DafsStatus;

DafsStatus NameProcedures::Remove(const Caller& caller, const wire::RemoveArgs& args,
                                  wire::RemoveRes* res) {
  if (IsOfAttributes(args.filehandle)) return store_.attributes.Remove(caller, args, res);
  STORE_RETURN_IF_NOT_OK(CheckName(args.target));
  ObjectRef directory;
  STORE_RETURN_IF_NOT_OK(store_.handles.ResolveTargetDir(caller, args.filehandle, &directory));
  const Export& exported = *directory->fs().exported;
  STORE_RETURN_IF_NOT_OK(ActAs(caller, exported));
  STORE_RETURN_IF_NOT_OK(store_.lookups.CheckNotReserved(*directory, args.target));
  const NameGuard guard = store_.object_locks.GuardName(*directory, args.target);
  ObjectKey key;
  STORE_RETURN_IF_NOT_OK(KeyOfName(store_, *directory, args.target, &key));
  STORE_RETURN_IF_NOT_OK(CheckFence(store_.fencing, caller, key));
  const bool check_open = args.remove_mode == wire::RemoveMode::kCheckOpen;
  RevokeForRemoval(store_, key, check_open);
  absl::MutexLock lock(&store_.object_locks.FileLock(key));
  STORE_RETURN_IF_NOT_OK(store_.announcements.Announce(
      caller,
      {AnnouncedChange::OfName(*directory, args.target), AnnouncedChange::OfAttributes(key)}, [&] {
        STORE_RETURN_IF_NOT_OK(store_.opens.CheckRemoval(key, check_open));
        return IsFilledDirectory(*directory, args.target) ? StatusFromErrno(ENOTEMPTY)
                                                          : DafsStatus::kOk;
      }));
  Removal removal(store_, caller, key);
  STORE_RETURN_IF_NOT_OK(removal.Prepare(check_open));
  ChangeProbe probe(*directory, caller.recent);
  if (Operation* operation = caller.operation) {
    operation->Begin(directory->handle(), args.target, probe.before(),
                     server::HandleOf(store_, key));
  }
  int result = unlinkat(directory->path_fd(), args.target.c_str(), 0);
  if (result != 0 && errno == EISDIR) {
    result = unlinkat(directory->path_fd(), args.target.c_str(), AT_REMOVEDIR);
  }
  const DafsStatus status = result == 0 ? DafsStatus::kOk : StatusFromErrno();
  removal.Done(result == 0);
  if (result == 0) res->change_info = probe.Modified();
  if (Operation* operation = caller.operation) {
    operation->result().after = res->change_info.after;
    operation->Done(status, directory->path_fd());
  }
  return status;
}

}  // namespace dafs::server
