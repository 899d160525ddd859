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
  // The structure that begins the body, 0 to 128 bytes, and what follows it: names, a value, the
  // data of a WRITE. Both lie in the entry. They belong to the kernel again after the answer.
  std::span<const std::byte> operation;
  std::span<const std::byte> payload;
};

// Returns nullopt if the sizes in `header` contradict each other or `payload`, which is the whole
// second buffer of the entry. The kernel does not send the size of the structure. It is the length
// of the request without its header and payload.
std::optional<RingRequest> ParseRingRequest(const UringReqHeader& header,
                                            std::span<const std::byte> payload);

}  // namespace dafs::fuse
