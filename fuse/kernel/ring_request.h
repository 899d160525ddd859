// A request as the kernel leaves it in an entry of an io_uring. A pure function; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "fuse/kernel/protocol.h"
#include "fuse/kernel/uring_protocol.h"

namespace dafs::fuse {

struct RingRequest {
  fuse_in_header header = {};
  // The structure that begins the body, none to 128 bytes, and what follows it: names, a value, the
  // data of a WRITE. Both lie in the entry, and are the kernel's again once it is answered.
  std::span<const std::byte> operation;
  std::span<const std::byte> payload;
};

// Nothing if the sizes that `header` tells do not fit each other or `payload`, the whole of the
// entry's second buffer. The kernel does not tell the size of the structure: it is what the length
// of the request leaves beside its header and the payload.
std::optional<RingRequest> ParseRingRequest(const UringReqHeader& header,
                                            std::span<const std::byte> payload);

}  // namespace dafs::fuse
