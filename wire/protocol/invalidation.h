// How a client tells a server that it names memory by windows, each for one request only: the
// server then invalidates the first buffer of a request with its response (Send with Invalidate),
// and the client need not do it before it goes on. Clients whose contexts last for the session say
// nothing, since a device ends the connection over a context that cannot be invalidated.
//
// Eight bytes of the connection request, behind the sixteen that E.9 defines. What follows those is
// ignored (WIRE 11.1): by other servers this is, and their clients end the windows themselves.
// Spec gap: the draft knows no remote invalidation. After RPC-over-RDMA version 2, section 4.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace dafs::wire {

inline constexpr size_t kInvalidationAt = 16;
inline constexpr std::array<std::byte, 8> kInvalidation = {
    std::byte{'D'}, std::byte{'A'}, std::byte{'F'}, std::byte{'S'},
    std::byte{'-'}, std::byte{'I'}, std::byte{'N'}, std::byte{'V'}};

inline bool AsksForInvalidation(std::span<const std::byte> private_data) {
  return private_data.size() >= kInvalidationAt + kInvalidation.size() &&
         std::ranges::equal(private_data.subspan(kInvalidationAt, kInvalidation.size()),
                            kInvalidation);
}

}  // namespace dafs::wire
