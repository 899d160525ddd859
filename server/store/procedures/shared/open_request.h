// An OPEN in the words of the store: its request and its result. Spec: 6.5.24; WIRE 9.7.
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "server/store/parts/store_parts.h"
#include "wire/messages/open_close.h"

namespace dafs::server {

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

// The result of an open.
struct Opened {
  wire::StateId state_id;  // zero: the delegation has taken the place of the open
  Shares before;           // what its owner had open already
  std::optional<Delegation> delegation;
  bool is_upgraded = false;  // that was a read delegation before
};

}  // namespace dafs::server
