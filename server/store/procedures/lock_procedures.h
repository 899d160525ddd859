// The procedures on locks, and the opens of lock owners.
// Spec: 6.5.18, 6.5.19, 6.5.20, 4.4.1.2; WIRE 9.4; R15.
// Thread-safe; blocks on the file system. Leaves the thread with the identity of the caller
// (server/store/store.h).
#pragma once

#include "server/store/holdings/caller.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct StoreParts;

class LockProcedures {
 public:
  // Borrowed.
  explicit LockProcedures(StoreParts& store) : store_(store) {}

  // 6.5.18, 6.5.19, 6.5.20. Nothing waits: a blocking LOCK is denied like any other, and keeps its
  // place in the queue while the client retries. On DENIED `res` is the conflicting lock, or the
  // range that is reserved for an owner that waits. Its client id is zero and its owner empty if a
  // local program holds it. DEADLOCK, only with kLockOfProcess: the owner has no place in the
  // queue.
  wire::DafsStatus Lock(const Caller& caller, const wire::LockArgs& args, wire::LockRes* res);
  wire::DafsStatus Lockt(const Caller& caller, const wire::LocktArgs& args, wire::LocktRes* res);
  wire::DafsStatus Locku(const Caller& caller, const wire::LockuArgs& args);

  // Whether LOCK, or LOCKU and CLOSE of the file, may wait for the disk, because they change a
  // PERSIST lock.
  bool LockMayWait(const wire::LockArgs& args) const;
  bool ReleaseMayWait(const wire::FileHandle& filehandle) const;

  // Private procedure 1010: an open for another owner of the client, with the access of an open
  // that the client has.
  wire::DafsStatus OpenOwner(const Caller& caller, const wire::OpenOwnerArgs& args,
                             wire::OpenOwnerRes* res);

 private:
  StoreParts& store_;
};

}  // namespace dafs::server
