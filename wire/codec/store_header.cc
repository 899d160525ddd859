#include "wire/codec/store_header.h"

#include <cstring>

#include "wire/codec/layout.h"

namespace dafs::wire::internal {
namespace {

// Both headers have the same layout in the first 28 bytes.
void StoreHeader(std::span<std::byte> out, bool swap, uint32_t magic, uint32_t version,
                 const uint16_t (&shorts)[4], const Analyzer& analyzer) {
  StoreAs(out.data(), magic, swap);
  StoreAs(out.data() + 4, version, swap);
  for (size_t i = 0; i < 4; ++i) StoreAs(out.data() + 8 + 2 * i, shorts[i], swap);
  std::memcpy(out.data() + 16, analyzer.bytes.data(), 8);
  std::memset(out.data() + kChecksumAt, 0, 4);
}

}  // namespace

void StoreRequestHeader(const RequestHeader& h, uint32_t length, ByteOrder order,
                        std::span<std::byte> out) {
  const bool swap = NeedsSwap(order);
  StoreHeader(out, swap, kRequestMagic, h.protocol_version,
              {h.desired_nreq, h.chain_flags, h.stream_id, h.seq_number}, h.analyzer);
  std::memcpy(out.data() + 28, h.cred_handle.bytes.data(), 4);
  StoreAs(out.data() + 32, static_cast<uint32_t>(h.procedure), swap);
  StoreAs(out.data() + 36, length, swap);
}

void StoreResponseHeader(const ResponseHeader& h, uint32_t length, ByteOrder order,
                         std::span<std::byte> out) {
  const bool swap = NeedsSwap(order);
  StoreHeader(out, swap, kResponseMagic, h.protocol_version,
              {h.target_nreq, h.spec_cond, h.stream_id, h.seq_number}, h.analyzer);
  StoreAs(out.data() + 28, static_cast<uint32_t>(h.status), swap);
  StoreAs(out.data() + 32, length, swap);
  StoreAs(out.data() + 36, h.attributes_at, swap);
}

void StoreChecksum(std::span<std::byte> out, Checksum sum, ByteOrder order) {
  StoreAs(out.data() + kChecksumAt, sum.s2, NeedsSwap(order));
  StoreAs(out.data() + kChecksumAt + 2, sum.s1, NeedsSwap(order));
}

}  // namespace dafs::wire::internal
