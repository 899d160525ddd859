// The bit of a response by which a client learns that a broken lock is why it was refused.
// Spec: 4.4.1.3, WIRE 3.2; private (R15). A constant; any thread.
#pragma once

#include <cstdint>

namespace dafs::wire {

// spec_cond: with STALE_STATEID, the range is under a broken PERSIST lock. The server knows the
// open, so the client has nothing to reclaim. Only in responses to a client that was granted an
// extension.
inline constexpr uint16_t kSpcondBrokenLock = 0x2000;

}  // namespace dafs::wire
