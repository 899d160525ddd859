// Grants open delegations with an open. Spec: 6.5.24; WIRE 9.5 OPEN_DELEGATED.
#pragma once

#include <cstdint>

#include "server/store/store_impl.h"
#include "wire/messages/open_close.h"

namespace dafs::server {

// What an open may get: a read delegation if no client has the file open for writing, a write
// delegation if no other client has it open.
struct Grant {
  ObjectRef file;
  uint32_t access = 0;  // of the open
  Delegations::Type most = Delegations::Type::kNone;
};

// Grants a delegation after `caller` has opened the file, or none. Fills in *res. Not for clients
// without a Back-control Channel for recalls (9.6), nor in exports that may hang or that local
// programs change.
void GrantDelegation(StoreImpl& store, const Caller& caller, const Grant& grant,
                     wire::OpenDelegation* res);

// The same for a client that claims the delegation `grant.most`: it gets it, and is recalled at
// once if there is a conflict.
void GrantClaimed(StoreImpl& store, const Caller& caller, const Grant& grant,
                  wire::OpenDelegation* res);

}  // namespace dafs::server
