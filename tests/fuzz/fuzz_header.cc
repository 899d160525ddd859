// Framing and headers of both directions, from the unchanged input; the checks before step 10.
#include "tests/fuzz/fuzz.h"
#include "wire/codec/checksum.h"
#include "wire/rules/request_check.h"

using namespace dafs::wire;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span message(reinterpret_cast<const std::byte*>(data), size);
  const auto request = DecodeRequestHeader(message, std::nullopt);
  if (request.ok()) {
    FUZZ_CHECK(request->header.request_len == size && size % 8 == 0);
    FUZZ_CHECK(!ToString(request->header).empty());
    (void)MessageChecksum(message, request->order);
  }
  const auto response = DecodeResponseHeader(message, ByteOrder::kBig);
  FUZZ_CHECK(!response.ok() || response->header.response_len == size);
  FUZZ_CHECK(!request.ok() || !response.ok());

  // Checks the same bytes in every state of a channel, as a chain of two.
  for (unsigned state = 0; state < 64; ++state) {
    RequestContext context;
    context.checksum_due = (state & 1) != 0;
    context.has_session = (state & 2) != 0;
    context.bound_channel = (state & 4) != 0;
    context.authenticated = (state & 8) != 0;
    context.back_control = (state & 16) != 0;
    context.granted_nreq = 1 + (state & 32) * 100;
    ChainState chain;
    for (int i = 0; i < 2; ++i) {
      const RequestVerdict verdict = CheckRequest(message, context, chain);
      FUZZ_CHECK(verdict.close_channel == !request.ok());
      FUZZ_CHECK(verdict.header_only == (verdict.status != DafsStatus::kOk));
      FUZZ_CHECK(verdict.status != DafsStatus::kOk || verdict.close_channel ||
                 verdict.proc != nullptr);
    }
  }
  return 0;
}
