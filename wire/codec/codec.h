// Messages to bytes and back. Spec: WIRE.md sections 2, 3, 6, 9.3; draft 6.1.1 to 6.1.3.
//
// Encoding is canonical (2.6): equal values give equal bytes. It writes straight into the caller's
// buffer, usually a registered one, allocates nothing, and fills in magic, procedure, length and,
// when asked, checksum. Decoding checks every offset, count and length before use and allocates
// only for strings and arrays, which section 7 bounds. Nothing here keeps state: any thread may
// call, nothing blocks. The templates are instantiated for all messages in the .cc files of this
// folder.
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
  // Message offset of the data: 0 = directly behind the fixed section (48, 136, 128), otherwise
  // the session's inline_write_header_size, with write_padded = 1 in the arguments.
  size_t position = 0;
};

struct EncodeOptions {
  bool checksum = false;  // fill in message_checksum
  InlineData inline_data = {};
  // Responses to OPEN: the request's claim, which decides whether a result section is present.
  OpenClaimType claim_type = OpenClaimType::kNull;
};

// Writes the request `header`, `args` and the inline data, if any, to `out`; returns the bytes
// written (request_len), a multiple of 8. The data is copied to its place, or left alone where it
// lies there already (data.data() == out.data() + position).
// Errors: kFailedPrecondition with the DAFS code kTooSmall if `out` is too small, or that of
// section 7 for a value beyond its bound; `out` then holds nothing of use.
template <class Args>
absl::StatusOr<size_t> EncodeRequest(const RequestHeader& header, const Args& args, ByteOrder order,
                                     std::span<std::byte> out, const EncodeOptions& options = {});

// As EncodeRequest, for inline data that goes out from a buffer of its own: writes what stands
// before the data (header, arguments, gap) to `out`, and behind it the zero bytes that stand after
// the data. The message is out[0, prefix_bytes), the data, out[prefix_bytes, + padding_bytes).
struct GatherPrefix {
  size_t prefix_bytes = 0;
  size_t padding_bytes = 0;  // 0 .. 7
};
template <class Args>
absl::StatusOr<GatherPrefix> EncodeRequestPrefix(const RequestHeader& header, const Args& args,
                                                 ByteOrder order, std::span<std::byte> out,
                                                 const EncodeOptions& options);

// Writes the response `header` and, where header.status calls for one (9.3), the result section
// `res`, to `out`; returns response_len. Inline data and errors as EncodeRequest; kTooSmall is
// then the status to answer instead.
template <class Res>
absl::StatusOr<size_t> EncodeResponse(const ResponseHeader& header, const Res& res, ByteOrder order,
                                      std::span<std::byte> out, const EncodeOptions& options = {});

// The same for a response whose data goes out from a buffer of its own.
template <class Res>
absl::StatusOr<GatherPrefix> EncodeResponsePrefix(const ResponseHeader& header, const Res& res,
                                                  ByteOrder order, std::span<std::byte> out,
                                                  const EncodeOptions& options);

// Writes a response of 40 bytes: any status without a result section. `out` holds at least 40.
size_t EncodeResponseHeaderOnly(const ResponseHeader& header, ByteOrder order,
                                std::span<std::byte> out, bool checksum);

// Writes the answer to a request of `proc` that failed with header.status in or after step 10 of
// 9.2: header only, or with an all-zero result section where 9.3 wants one.
absl::StatusOr<size_t> EncodeErrorResponse(const ResponseHeader& header, Proc proc, ByteOrder order,
                                           std::span<std::byte> out,
                                           const EncodeOptions& options = {});

// The bytes EncodeRequest or EncodeResponse need at most (with the whole result section): header,
// fixed section, heap and padding, without inline data.
template <class Body>
size_t EncodedSize(const Body& args_or_res);

// Writes a response header in front of what `out` already holds up to `message_bytes` (a multiple
// of 8): for FETCH_RESPONSE, and for results built in place. Fills in length and checksum.
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
// order; nullopt before there is a session, when either is taken. Checks step 1 of 9.2 and nothing
// else: version, checksum and all the rest are the caller's (wire/rules/request_check.h).
// Errors: kDataLoss: the channel must be closed.
absl::StatusOr<DecodedRequestHeader> DecodeRequestHeader(std::span<const std::byte> message,
                                                         std::optional<ByteOrder> expected);
absl::StatusOr<DecodedResponseHeader> DecodeResponseHeader(std::span<const std::byte> message,
                                                           std::optional<ByteOrder> expected);

// Decodes the arguments of a request whose header has been read. Returns kOk, or the status a
// server must answer (layout, limits, enums and names of step 10 of 9.2); `args` is then
// unspecified. `names` is what the session has agreed on. Responders use CheckArgs
// (wire/rules/request_check.h), which applies the further rules for arguments too. With DAFS_CHF_FH
// or DAFS_CHF_STATEID the caller replaces the field afterwards (wire/messages/chain.h).
template <class Args>
DafsStatus DecodeArgs(std::span<const std::byte> message, ByteOrder order, Args& args,
                      NameRule names = NameRule::kUtf8);

// The inline data of a WRITE_INLINE or APPEND_INLINE request, inside `message`.
// `inline_write_header_size` is the negotiated value. kInval if the data is not all there, or is
// padded without having been negotiated.
DafsStatus FindInlineData(std::span<const std::byte> message, const WriteInlineArgs& args,
                          uint32_t inline_write_header_size, std::span<const std::byte>& data);
DafsStatus FindInlineData(std::span<const std::byte> message, const AppendInlineArgs& args,
                          uint32_t inline_write_header_size, std::span<const std::byte>& data);

// Decodes the result section of a response with `status` in its header, as far as 9.3 says there
// is one; otherwise `res` is reset to its defaults. An exceptional status with a bare header gives
// defaults too. `claim_type` matters to OPEN only.
// Errors: kDataLoss: the response is malformed; the session has failed.
template <class Res>
absl::Status DecodeRes(std::span<const std::byte> message, ByteOrder order, DafsStatus status,
                       Res& res, OpenClaimType claim_type = OpenClaimType::kNull);

// The data of a READ_INLINE response, inside `message`. kDataLoss if it is not all there.
absl::StatusOr<std::span<const std::byte>> FindInlineData(std::span<const std::byte> message,
                                                          const ReadInlineRes& res);

// Whether a response of `proc` with `status` carries a result section. Spec: WIRE.md 9.3.
bool CarriesResult(Proc proc, DafsStatus status, OpenClaimType claim_type = OpenClaimType::kNull);

// ---- Printing ------------------------------------------------------------------------------

// One line for the trace log: "LOOKUP{directory=.., path=[a, bc]}". Long opaque values are cut.
template <class Body>
std::string ToString(const Body& args_or_res);
std::string ToString(const RequestHeader& header);
std::string ToString(const ResponseHeader& header);

}  // namespace dafs::wire
