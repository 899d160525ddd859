// Encodes, decodes and prints messages. Spec: WIRE sections 2, 3, 6, 9.3; draft 6.1.1 to 6.1.3.
//
// Encoding is canonical (2.6): equal values give equal bytes. The encoder writes directly to the
// caller's buffer, which is usually registered memory, and allocates nothing. It fills in magic,
// procedure, length and, on request, checksum. The decoder checks every offset, count and length
// before it uses them. It allocates only for strings and arrays, which section 7 bounds.
//
// The functions keep no state: any thread may call them, and they do not block. messages.cc
// instantiates the templates for all messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "wire/messages/messages.h"
#include "wire/protocol/header.h"
#include "wire/protocol/name_check.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// ---- Encoding ------------------------------------------------------------------------------

// The inline data of a READ_INLINE response, or of a WRITE_INLINE or APPEND_INLINE request.
struct InlineData {
  std::span<const std::byte> data = {};
  // Message offset of the data. 0: directly after the fixed section (48, 136, 128). Otherwise it is
  // the session's inline_write_header_size, with write_padded = 1 in the arguments.
  size_t position = 0;
};

struct EncodeOptions {
  bool checksum = false;  // whether to fill in message_checksum
  InlineData inline_data = {};
  // For a response to OPEN: the request's claim, which decides whether there is a result section.
  OpenClaimType claim_type = OpenClaimType::kNull;
};

// Writes the request `header`, `args` and the inline data, if any, to `out`. Returns the number of
// bytes written (request_len), a multiple of 8. Copies the data to its place, unless its place
// already has it (data.data() == out.data() + position).
// Errors: kFailedPrecondition with the DAFS code kTooSmall if `out` is too small, or with the code
// of section 7 for a value beyond its bound. After an error the content of `out` is unspecified.
template <class Args>
absl::StatusOr<size_t> EncodeRequest(const RequestHeader& header, const Args& args, ByteOrder order,
                                     std::span<std::byte> out, const EncodeOptions& options = {});

// Writes the response `header` to `out`, and the result section `res` if header.status requires one
// (9.3). Returns response_len. Inline data and errors as in EncodeRequest. After kTooSmall the
// server responds with that status instead.
template <class Res>
absl::StatusOr<size_t> EncodeResponse(const ResponseHeader& header, const Res& res, ByteOrder order,
                                      std::span<std::byte> out, const EncodeOptions& options = {});

// Writes a response of 40 bytes, for any status without a result section. `out` has at least 40
// bytes.
size_t EncodeResponseHeaderOnly(const ResponseHeader& header, ByteOrder order,
                                std::span<std::byte> out, bool checksum);

// Writes the response to a request of `proc` that failed with header.status in or after step 10 of
// 9.2. It is a bare header, or has an all-zero result section if 9.3 requires one.
absl::StatusOr<size_t> EncodeErrorResponse(const ResponseHeader& header, Proc proc, ByteOrder order,
                                           std::span<std::byte> out,
                                           const EncodeOptions& options = {});

// The most bytes that EncodeRequest or EncodeResponse needs (with the whole result section):
// header, fixed section, heap and padding, without inline data.
template <class Body>
size_t EncodedSize(const Body& args_or_res);

// Writes a response header before the content that `out` already holds up to `message_bytes` (a
// multiple of 8). Used for FETCH_RESPONSE, and for results built in place. Fills in length and
// checksum.
void WriteResponseHeader(const ResponseHeader& header, ByteOrder order, std::span<std::byte> out,
                         size_t message_bytes, bool checksum);

// ---- Decoding ------------------------------------------------------------------------------

struct DecodedRequestHeader {
  RequestHeader header;
  ByteOrder order = ByteOrder::kLittle;
};
struct DecodedResponseHeader {
  ResponseHeader header;
  ByteOrder order = ByteOrder::kLittle;
};

// Reads the header of `message`, the bytes exactly as received. `expected` is the session's byte
// order; nullopt before there is a session, when both orders are accepted. Checks only step 1 of
// 9.2. The caller checks version, checksum and everything else (wire/rules/request_check.h).
// Errors: kDataLoss: the caller must close the channel.
absl::StatusOr<DecodedRequestHeader> DecodeRequestHeader(std::span<const std::byte> message,
                                                         std::optional<ByteOrder> expected);
absl::StatusOr<DecodedResponseHeader> DecodeResponseHeader(std::span<const std::byte> message,
                                                           std::optional<ByteOrder> expected);

// Decodes the arguments of a request whose header was read. Returns kOk, or the status for the
// response (layout, limits, enums and names of step 10 of 9.2); `args` is then unspecified. `names`
// is the session's name rule.
// Responders use CheckArgs (wire/rules/request_check.h) instead, which also applies the further
// rules for arguments. With DAFS_CHF_FH or DAFS_CHF_STATEID the caller replaces the field
// afterwards (wire/messages/chain.h).
template <class Args>
DafsStatus DecodeArgs(std::span<const std::byte> message, ByteOrder order, Args& args,
                      NameRule names = NameRule::kUtf8);

// Returns the inline data of a WRITE_INLINE or APPEND_INLINE request, inside `message`.
// `inline_write_header_size` is the negotiated value. kInval if the data is incomplete, or is
// padded although padding was not negotiated.
DafsStatus FindInlineData(std::span<const std::byte> message, const WriteInlineArgs& args,
                          uint32_t inline_write_header_size, std::span<const std::byte>& data);
DafsStatus FindInlineData(std::span<const std::byte> message, const AppendInlineArgs& args,
                          uint32_t inline_write_header_size, std::span<const std::byte>& data);

// Decodes the result section of a response with `status` in its header, if 9.3 requires one.
// Otherwise resets `res` to its defaults. An exceptional status with a bare header gives defaults
// too. Only OPEN uses `claim_type`.
// Errors: kDataLoss: the response is malformed; the session has failed.
template <class Res>
absl::Status DecodeRes(std::span<const std::byte> message, ByteOrder order, DafsStatus status,
                       Res& res, OpenClaimType claim_type = OpenClaimType::kNull);

// Returns the data of a READ_INLINE response, inside `message`. kDataLoss if it is incomplete.
absl::StatusOr<std::span<const std::byte>> FindInlineData(std::span<const std::byte> message,
                                                          const ReadInlineRes& res);

// Whether a response of `proc` with `status` carries a result section. Spec: WIRE 9.3.
bool CarriesResult(Proc proc, DafsStatus status, OpenClaimType claim_type = OpenClaimType::kNull);

// ---- Printing ------------------------------------------------------------------------------

// Prints one line for the trace log: "LOOKUP{directory=.., path=[a, bc]}". Truncates long opaque
// values.
template <class Body>
std::string ToString(const Body& args_or_res);
std::string ToString(const RequestHeader& header);
std::string ToString(const ResponseHeader& header);

}  // namespace dafs::wire
