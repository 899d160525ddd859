#include "server/store/access/announcements.h"

#include <fcntl.h>
#include <unistd.h>

#include "server/store/access/return_if_not_ok.h"
#include "server/store/system/errno_status.h"
#include "wire/protocol/header.h"

namespace dafs::server {

using wire::DafsStatus;

void Announcements::RecallRemoved() {
  for (const ObjectKey& key : leases_.Removed()) RecallAll(key);
}

void Announcements::RecallAll(const ObjectKey& key) {
  delegations_.IsFree(key, wire::ClientId(), Delegations::Use::kWrites, nullptr);
}

void Announcements::EndLease(const ObjectKey& key) {
  if (leases_.End(key)) RecallAll(key);
}

bool Announcements::GivePromise(const Caller& caller, const ObjectKey& key, uint8_t what) {
  return caller.promisee != 0 && promises_.Give(key, caller.promisee, what) == what;
}

DafsStatus Announcements::Announce(const Caller& caller,
                                   std::initializer_list<AnnouncedChange> changes,
                                   absl::FunctionRef<DafsStatus()> refusal) {
  bool may_change = true;
  for (const AnnouncedChange& change : changes) {
    if (caller.changing != nullptr) {
      may_change = caller.changing->Begin(change.key, change.what, change.name) && may_change;
    }
    if (change.what == kPromisedAttributes &&
        AwaitDelegations(caller, change.key, Delegations::Use::kWrites) != DafsStatus::kOk) {
      may_change = false;
    }
    const Object* directory = change.directory;
    if (directory != nullptr && directory->fs().exported->only_clients_change &&
        caller.promises != nullptr) {
      *caller.promises |= wire::kSpcondOnlyClients;  // together with kSpcondNames
    }
  }
  if (may_change) return DafsStatus::kOk;
  for (const AnnouncedChange& change : changes) {
    if (change.directory != nullptr &&
        faccessat(change.directory->path_fd(), "", W_OK | X_OK, AT_EMPTY_PATH | AT_EACCESS) != 0) {
      return StatusFromErrno();
    }
  }
  STORE_RETURN_IF_NOT_OK(refusal());
  return DafsStatus::kDelay;
}

void Announcements::AnnounceNew(const Caller& caller, const ObjectKey& key) {
  if (caller.changing != nullptr) caller.changing->Begin(key, kPromisedAttributes);
}

}  // namespace dafs::server
