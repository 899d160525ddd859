#include "wire/codec/message_frame.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/text.h"
#include "wire/codec/checksum.h"
#include "wire/codec/layout.h"
#include "wire/codec/store_header.h"

namespace dafs::wire::internal {
namespace {

// Places the data after the bytes that the encoder wrote, pads, and writes the header.
template <class StoreHeaderFn>
absl::StatusOr<size_t> Finish(Encoder& encoder, ByteOrder order, std::span<std::byte> out,
                              const EncodeOptions& options, const StoreHeaderFn& store_header) {
  const std::span<const std::byte> data = options.inline_data.data;
  encoder.PadTo(options.inline_data.position);
  const size_t data_at = encoder.end();
  const size_t message_bytes = Up8(data_at + data.size());
  if (data.empty()) encoder.PadTo(message_bytes);
  if (encoder.error() != DafsStatus::kOk || message_bytes > out.size()) {
    return StatusFromDafs(
        encoder.error() == DafsStatus::kOk ? DafsStatus::kTooSmall : encoder.error(),
        absl::StrCat("encode ", message_bytes, " bytes into ", out.size()));
  }
  if (!data.empty()) {
    std::byte* const place = out.data() + data_at;
    if (place != data.data()) std::memmove(place, data.data(), data.size());
    std::memset(place + data.size(), 0, message_bytes - data_at - data.size());
  }
  store_header(static_cast<uint32_t>(message_bytes));
  if (options.checksum) {
    Fletcher sum(order);
    sum.Add(out.first(message_bytes));
    StoreChecksum(out, sum.Result(), order);
  }
  return message_bytes;
}

}  // namespace

absl::StatusOr<size_t> FinishRequest(Encoder& encoder, const RequestHeader& header, ByteOrder order,
                                     std::span<std::byte> out, const EncodeOptions& options) {
  return Finish(encoder, order, out, options,
                [&](uint32_t length) { StoreRequestHeader(header, length, order, out); });
}

absl::StatusOr<size_t> FinishResponse(Encoder& encoder, const ResponseHeader& header,
                                      ByteOrder order, std::span<std::byte> out,
                                      const EncodeOptions& options) {
  return Finish(encoder, order, out, options,
                [&](uint32_t length) { StoreResponseHeader(header, length, order, out); });
}

absl::StatusOr<bool> FindResult(size_t message_bytes, const ProcInfo& proc, DafsStatus status,
                                OpenClaimType claim_type) {
  if (proc.res_size == 0 || !CarriesResult(proc.number, status, claim_type)) return false;
  if (status != DafsStatus::kOk && message_bytes == kHeaderSize) return false;
  if (message_bytes < kHeaderSize + proc.res_size) {
    return absl::DataLossError(absl::StrCat("response to ", Text(proc.name), ": ", message_bytes,
                                            " bytes, its result section needs ",
                                            kHeaderSize + proc.res_size));
  }
  return true;
}

absl::Status MalformedResult(const ProcInfo& proc, DafsStatus fault) {
  return absl::DataLossError(absl::StrCat("response to ", Text(proc.name), ": malformed result (",
                                          Text(Name(fault)), ")"));
}

}  // namespace dafs::wire::internal
