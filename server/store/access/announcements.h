// Promises to clients, and what must happen before something that is promised or delegated changes
// (WIRE 9.6). A procedure announces a change before it makes it. If clients must be called or
// delegations must end first, it returns DELAY, and is executed again afterwards.
// Thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "absl/functional/function_ref.h"
#include "server/store/access/announced_change.h"
#include "server/store/holdings/caller.h"
#include "server/store/holdings/delegations/delegations.h"
#include "server/store/holdings/locks/kernel_leases.h"
#include "server/store/holdings/promises/promises.h"
#include "wire/protocol/constants.h"

namespace dafs::server {

// Whether a GETATTR that follows in the chain can use what this caller's request finds.
inline bool KeepsStats(const Caller* caller) {
  return caller != nullptr && caller->recent != nullptr;
}

class Announcements {
 public:
  // All are borrowed.
  Announcements(Promises& promises, Delegations& delegations, KernelLeases& leases)
      : promises_(promises), delegations_(delegations), leases_(leases) {}

  // Promises `what` of an object to `caller` before it is read. Returns whether that is promised.
  bool GivePromise(const Caller& caller, const ObjectKey& key, uint8_t what);

  // Announces changes to the clients that were promised a notice. DELAY if there are some: the
  // procedure returns it, with nothing changed or journalled, and the session calls these clients
  // and then the procedure again. Call with the identity entered and the names guarded.
  // The kernel would refuse some changes. `refusal` finds out which at some cost, and is called
  // only if clients would have to be called: any status but OK is returned.
  wire::DafsStatus Announce(const Caller& caller, std::initializer_list<AnnouncedChange> changes,
                            absl::FunctionRef<wire::DafsStatus()> refusal);
  wire::DafsStatus Announce(const Caller& caller, std::initializer_list<AnnouncedChange> changes) {
    return Announce(caller, changes, [] { return wire::DafsStatus::kOk; });
  }
  // Begins to recall the delegations of other clients that conflict with this use of the file.
  // DELAY if there are some: the session waits for their end, and calls the procedure again.
  // Announce does the same for the changes of attributes. No system call.
  wire::DafsStatus AwaitDelegations(const Caller& caller, const ObjectKey& key,
                                    Delegations::Use use) {
    return delegations_.IsFree(key, caller.client_id, use, caller.awaited)
               ? wire::DafsStatus::kOk
               : wire::DafsStatus::kDelay;
  }
  // Ends the lease of a file that the server is about to open for writing or to truncate, which
  // would wait for the lease. Begins to recall the delegations that the lease protected: those of
  // the caller, because Announce and AwaitDelegations have left no other. Call after these.
  void EndLease(const ObjectKey& key);
  // Begins to recall all delegations of a file.
  void RecallAll(const ObjectKey& key);
  // The request has made an object, and changed its attributes after others could see it. A client
  // that has read them is called before the response is sent.
  void AnnounceNew(const Caller& caller, const ObjectKey& key);
  // Recalls the delegations of files that local programs have removed.
  void RecallRemoved();

 private:
  Promises& promises_;
  Delegations& delegations_;
  KernelLeases& leases_;
};

}  // namespace dafs::server
