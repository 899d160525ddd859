// The rule for the share reservation of an open: it reads, writes or both, and denies any of them
// or none. Spec: WIRE 9.4. Pure functions; any thread.
#pragma once

#include <cstdint>

#include "wire/protocol/constants.h"
#include "wire/protocol/status.h"

namespace dafs::wire {

inline DafsStatus CheckShare(uint32_t access, uint32_t deny) {
  return access >= kShareRead && access <= kShareBoth && deny <= kShareBoth ? DafsStatus::kOk
                                                                            : DafsStatus::kInval;
}

// For procedures and claims whose open a delegation may take the place of.
inline DafsStatus CheckShareOrWish(uint32_t access, uint32_t deny) {
  return CheckShare(access & ~kShareWantOpenXorDelegation, deny);
}

}  // namespace dafs::wire
