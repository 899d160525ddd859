// The procedures that open and close files, with the delegations of an open.
// Spec: 6.5.7, 6.5.10, 6.5.11, 6.5.24, 6.5.26; WIRE 9.5.
// Thread-safe; blocks on the file system. Leaves the thread with the identity of the caller
// (server/store/store.h).
#pragma once

#include "server/store/holdings/caller.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct StoreParts;

class OpenProcedures {
 public:
  // Borrowed.
  explicit OpenProcedures(StoreParts& store) : store_(store) {}

  // 6.5.24. On a component status `res` is as in Lookup. Only clients that are known to use
  // delegations get some (AdmittedClients::Admit).
  wire::DafsStatus Open(const Caller& caller, const wire::OpenArgs& args, wire::OpenRes* res);

  // Private procedure 1000: OPEN of an existing file by its handle.
  wire::DafsStatus OpenHandle(const Caller& caller, const wire::OpenHandleArgs& args,
                              wire::OpenHandleRes* res);

  // Private procedure 1011: the same, with a delegation.
  wire::DafsStatus OpenDelegated(const Caller& caller, const wire::OpenDelegatedArgs& args,
                                 wire::OpenDelegatedRes* res);

  // 6.5.10, 6.5.11.
  wire::DafsStatus Delegpurge(const Caller& caller, const wire::DelegpurgeArgs& args);
  wire::DafsStatus Delegreturn(const Caller& caller, const wire::DelegreturnArgs& args);

  // Private procedure 1002: opens for reading a file that the caller may read or execute.
  wire::DafsStatus OpenExecute(const Caller& caller, const wire::OpenExecuteArgs& args,
                               wire::OpenExecuteRes* res);

  // 6.5.7, 6.5.26.
  wire::DafsStatus Close(const Caller& caller, const wire::CloseArgs& args);
  wire::DafsStatus OpenDowngrade(const Caller& caller, const wire::OpenDowngradeArgs& args);

 private:
  StoreParts& store_;
};

}  // namespace dafs::server
