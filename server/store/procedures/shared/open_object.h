// Opens an object that was found or created. Spec: 6.5.24, 4.4.1.2, 4.4.2.
//
// At OPEN, the kernel checks with the caller's identity whether the file may be read or written.
// The open records the rights that it granted. Data operations then use descriptors that the server
// opens with its own privilege.
#pragma once

#include <cstdint>

#include "server/store/parts/store_parts.h"
#include "server/store/procedures/shared/open_request.h"

namespace dafs::server {

// How the file of an OPEN was obtained. Decides which rights are checked.
enum class Made : uint8_t {
  kFound,      // it existed: checks the caller's rights
  kCreated,    // by this OPEN, whatever rights its mode grants
  kPermitted,  // it existed, and the caller's rights were checked already
  kReclaimed,  // it was open before the restart of the server
  kDelegated,  // the client has a delegation of it, and may have opened it already
};

bool MayExecute(const Object& file);

// Opens `file` for `request`, as the identity entered. `instead`: the most that may take the place
// of the open.
wire::DafsStatus OpenObject(StoreParts& store, const Caller& caller, const ObjectRef& file,
                            const OpenRequest& request, Made made, Opened* opened,
                            Delegations::Type instead = Delegations::Type::kNone);

}  // namespace dafs::server
