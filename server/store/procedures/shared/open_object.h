// Opens an object that was found or created. Spec: 6.5.24, 4.4.1.2, 4.4.2.
//
// At OPEN, the kernel checks with the caller's identity whether the file may be read or written.
// The open records the rights that it granted. Data operations then use descriptors that the server
// opens with its own privilege.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "server/store/parts/store_parts.h"
#include "wire/messages/open_close.h"

namespace dafs::server {

// How the file of an OPEN was obtained. Decides which rights are checked.
enum class Made : uint8_t {
  kFound,      // it existed: checks the caller's rights
  kCreated,    // by this OPEN, whatever rights its mode grants
  kPermitted,  // it existed, and the caller's rights were checked already
  kReclaimed,  // it was open before the restart of the server
  kDelegated,  // the client has a delegation of it, and may have opened it already
};

// The result of an open.
struct Opened {
  wire::StateId state_id;  // zero: the delegation has taken the place of the open
  Shares before;           // what its owner had open already
  std::optional<Delegation> delegation;
  bool is_upgraded = false;  // that was a read delegation before
};

// Whether the client wants a delegation in place of the open. WIRE 9.7.
inline bool WantsInstead(uint32_t share_access) {
  return (share_access & wire::kShareWantOpenXorDelegation) != 0;
}
// The most that an OPEN with these arguments may get. A file that is to be reserved is shared.
Delegations::Type MostFor(const wire::OpenArgs& args);
// The most of it that may take the place of the open.
inline Delegations::Type InsteadOf(const wire::OpenArgs& args) {
  return WantsInstead(args.share_access) ? MostFor(args) : Delegations::Type::kNone;
}

OpenRequest RequestOf(const Caller& caller, const wire::OpenArgs& args);
// Ignores that the client wants a delegation instead.
OpenRequest RequestOf(const Caller& caller, std::string_view owner, uint32_t access,
                      uint32_t deny = wire::kShareDenyNone);

bool MayExecute(const Object& file);

// Opens `file` for `request`, as the identity entered. `instead`: the most that may take the place
// of the open.
wire::DafsStatus OpenObject(StoreParts& store, const Caller& caller, const ObjectRef& file,
                            const OpenRequest& request, Made made, Opened* opened,
                            Delegations::Type instead = Delegations::Type::kNone);

}  // namespace dafs::server
