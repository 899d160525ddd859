// The bit of a response by which a client learns that a fence is why it was refused.
// Spec: 4.4.4, WIRE 3.2; private (R15). A constant; any thread.
#pragma once

#include <cstdint>

namespace dafs::wire {

// spec_cond: with ACCES, a fencing list has refused the request. Only in responses to a client that
// was granted an extension.
inline constexpr uint16_t kSpcondFenced = 0x1000;

}  // namespace dafs::wire
