// Grants open delegations with an open. Spec: 6.5.24; WIRE 9.5 OPEN_DELEGATED.
#pragma once

#include <cstdint>

#include "server/store/parts/store_parts.h"
#include "server/store/procedures/shared/open_request.h"
#include "wire/messages/open_close.h"

namespace dafs::server {

// The delegation that an open may get: read if no client has the file open for writing, write
// delegation if no other client has it open.
struct Grant {
  ObjectRef file;
  uint32_t access = 0;  // of the open
  Delegations::Type most = Delegations::Type::kNone;
  bool instead = false;  // the client wants it in place of the open
};

// Opens the file for `request`, or grants a delegation of at most `grant.most` in place of that. A
// read delegation of the client may thereby become a write delegation. The caller holds the file's
// lock, and has checked the rights of the client.
wire::DafsStatus OpenOrDelegate(StoreParts& store, const Caller& caller, const Grant& grant,
                                const OpenRequest& request, Opened* opened);
// Undoes it if a delegation was granted. The caller holds no lock of a file.
void TakeBackDelegation(StoreParts& store, const Opened& opened);

// Fills in *res after `caller` has opened the file: the delegation in place of the open, or one
// beside it unless the client wants none there. If an open for writing was wanted as a delegation
// and was not, it ends the client's read delegation. The caller holds no lock of a file.
// No delegations for clients without a Back-control Channel for recalls (9.6), and in exports that
// may hang. Where local programs change files, read delegations only, each protected by a lease of
// the kernel.
void GrantDelegation(StoreParts& store, const Caller& caller, const Grant& grant,
                     const Opened& opened, wire::OpenDelegation* res);

// A write delegation becomes a read delegation. Returns false if it is being recalled, does not
// permit reading, or has ended. `delegation.type` is not used.
bool DowngradeDelegation(StoreParts& store, const Delegation& delegation);

// The same for a client that claims the delegation `grant.most`: it gets it, and is recalled at
// once if there is a conflict.
void GrantClaimed(StoreParts& store, const Caller& caller, const Grant& grant,
                  wire::OpenDelegation* res);

}  // namespace dafs::server
