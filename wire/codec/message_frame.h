// The parts of a message around its body, the same for all: header, data, padding, checksum.
// For the templates of instantiate.h.
#pragma once

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/codec/codec.h"
#include "wire/codec/encoder.h"
#include "wire/protocol/header.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::wire::internal {

// Add the data and the header after the encoder has written the body.
absl::StatusOr<size_t> FinishRequest(Encoder& encoder, const RequestHeader& header, ByteOrder order,
                                     std::span<std::byte> out, const EncodeOptions& options);
absl::StatusOr<size_t> FinishResponse(Encoder& encoder, const ResponseHeader& header,
                                      ByteOrder order, std::span<std::byte> out,
                                      const EncodeOptions& options);

// Returns whether there is a result section to decode. kDataLoss if a required one is missing.
absl::StatusOr<bool> FindResult(size_t message_bytes, const ProcInfo& proc, DafsStatus status,
                                OpenClaimType claim_type);
absl::Status MalformedResult(const ProcInfo& proc, DafsStatus fault);

}  // namespace dafs::wire::internal
