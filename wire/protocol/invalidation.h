// How a client declares that it names memory by windows, each valid for one request only. The
// server then invalidates the first buffer of a request by its response (Send with Invalidate), so
// that the client need not do it before it continues. Clients whose contexts last for the session
// declare nothing, because a device ends the connection if a context cannot be invalidated.
//
// The declaration is eight bytes of the connection request, after the sixteen bytes that E.9
// defines. WIRE 11.1 requires receivers to ignore further bytes. Other servers therefore ignore the
// declaration, and the client ends the windows itself.
// Spec gap: the draft has no remote invalidation. Modelled on RPC-over-RDMA version 2, section 4.
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
