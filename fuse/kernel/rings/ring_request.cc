#include "fuse/kernel/rings/ring_request.h"

#include <cstring>

namespace dafs::fuse {

std::optional<RingRequest> ParseRingRequest(const UringReqHeader& header,
                                            std::span<const std::byte> payload) {
  RingRequest request;
  std::memcpy(&request.header, header.in_out, sizeof(request.header));
  const uint64_t used = header.ring_ent_in_out.payload_sz;
  if (used > payload.size() || header.ring_ent_in_out.commit_id != request.header.unique) {
    return std::nullopt;
  }
  const uint64_t beside = sizeof(fuse_in_header) + used;
  if (request.header.len < beside || request.header.len - beside > kUringOperationBytes) {
    return std::nullopt;
  }
  request.operation = std::span(header.op_in).first(request.header.len - beside);
  request.payload = payload.first(used);
  return request;
}

}  // namespace dafs::fuse
