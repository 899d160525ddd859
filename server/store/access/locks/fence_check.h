// Whether a fence permits what a caller requests. Spec: 4.4.4.
#pragma once

#include "server/store/fencing/fencing.h"
#include "server/store/holdings/caller.h"
#include "server/store/objects/handle.h"
#include "wire/protocol/constants.h"

namespace dafs::server {

// ACCES if a fencing list of the object or its file system does not admit the caller's session.
// Thread-safe. Costs one load while there is no list.
inline wire::DafsStatus CheckFence(const Fencing& fencing, const Caller& caller,
                                   const ObjectKey& key) {
  if (fencing.Admits(caller.fence, key)) return wire::DafsStatus::kOk;
  if (caller.fenced_off != nullptr) *caller.fenced_off = true;
  return wire::DafsStatus::kAcces;
}

}  // namespace dafs::server
