// Where inline data lies in a message. Spec: WIRE R12. Pure functions.
#pragma once

#include <cstdint>

#include "wire/protocol/header.h"
#include "wire/protocol/procedures.h"

namespace dafs::wire {

// The message offset of what follows the fixed section of a request or response of `proc`: inline
// data, unless it is padded.
constexpr uint32_t EndOfArgs(Proc proc) { return uint32_t{kHeaderSize} + InfoOf(proc).args_size; }
constexpr uint32_t EndOfRes(Proc proc) { return uint32_t{kHeaderSize} + InfoOf(proc).res_size; }

}  // namespace dafs::wire
