// The headers of RPC-over-RDMA and of RPC, from the unchanged input.
#include "tests/fuzz/fuzz.h"
#include "wire/rpcrdma/header.h"
#include "wire/rpcrdma/properties.h"
#include "wire/rpcrdma/read_chunks.h"
#include "wire/rpcrdma/rpc_message.h"

using namespace dafs::rpcrdma;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span message(reinterpret_cast<const std::byte*>(data), size);
  (void)DecodeCall(message);
  (void)DecodeReply(message);
  const DecodedHeader decoded = DecodeHeader(message);
  if (decoded.fault != HeaderFault::kNone) return 0;
  FUZZ_CHECK(decoded.size <= size);
  // Padding may be any bytes, so only the header and not its bytes must come back.
  const Bytes bytes = EncodeHeader(decoded.header);
  FUZZ_CHECK(bytes.size() == decoded.size);
  const DecodedHeader again = DecodeHeader(bytes);
  FUZZ_CHECK(again.fault == HeaderFault::kNone && again.header == decoded.header);
  const PropertySet& values = decoded.header.properties.values;
  if (CheckProperties(values).ok()) {
    Properties properties;
    for (const PropertyValue& value : values) ApplyProperty(value, properties);
    FUZZ_CHECK(properties.receive_size >= kDefaultInline);
    PropertySet other;
    FUZZ_CHECK(JudgeResponse(values, decoded.header.properties, &other).size() == values.size());
  }
  constexpr size_t kMost = 1 << 16;
  const auto plan = PlanReads(GroupReads(decoded.header.chunks.reads), size - decoded.size, kMost);
  if (!plan.ok()) return 0;
  FUZZ_CHECK(plan->size <= kMost);
  size_t end = 0;
  for (const Piece& piece : plan->pieces) {
    FUZZ_CHECK(piece.at >= end && piece.at + piece.size <= plan->size);
    FUZZ_CHECK(!piece.is_inline || piece.inline_at + piece.size <= size - decoded.size);
    end = piece.at + piece.size;
  }
  return 0;
}
