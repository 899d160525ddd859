// Headers, errors and inline data, and which responses have a result (9.3).
#include "wire/codec/codec.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/text.h"
#include "wire/codec/checksum.h"
#include "wire/codec/layout.h"
#include "wire/codec/store_header.h"
#include "wire/protocol/inline_offset.h"

namespace dafs::wire {
namespace {

using internal::kChecksumAt;
using internal::LoadAs;
using internal::NeedsSwap;
using internal::StoreChecksum;
using internal::StoreResponseHeader;
using internal::Up8;

struct Framing {
  ByteOrder order;
  uint32_t length;
};

// Step 1 of 9.2: at least a header, known magic, a length word equal to the received bytes, a
// multiple of 8.
absl::StatusOr<Framing> CheckFraming(std::span<const std::byte> message, uint32_t magic,
                                     size_t length_at, std::optional<ByteOrder> expected) {
  if (message.size() < kHeaderSize) {
    return absl::DataLossError(
        absl::StrCat("message: ", message.size(), " bytes, less than a header"));
  }
  const uint32_t first = LoadAs<uint32_t>(message.data(), false);
  Framing framing;
  if (first == magic) {
    framing.order = ByteOrder::kLittle;
  } else if (first == __builtin_bswap32(magic)) {
    framing.order = ByteOrder::kBig;
  } else {
    return absl::DataLossError(
        absl::StrCat("message: magic 0x", absl::Hex(first), " is not valid here"));
  }
  if (expected.has_value() && *expected != framing.order) {
    return absl::DataLossError("message: byte order is not the session's");
  }
  framing.length = LoadAs<uint32_t>(message.data() + length_at, NeedsSwap(framing.order));
  if (framing.length != message.size() || framing.length % 8 != 0) {
    return absl::DataLossError(absl::StrCat("message: length ", framing.length, " of ",
                                            message.size(), " bytes received"));
  }
  return framing;
}

template <class Header>
void LoadCommon(std::span<const std::byte> in, bool swap, Header& h, uint16_t& nreq,
                uint16_t& flags) {
  h.protocol_version = LoadAs<uint32_t>(in.data() + 4, swap);
  nreq = LoadAs<uint16_t>(in.data() + 8, swap);
  flags = LoadAs<uint16_t>(in.data() + 10, swap);
  h.stream_id = LoadAs<uint16_t>(in.data() + 12, swap);
  h.seq_number = LoadAs<uint16_t>(in.data() + 14, swap);
  std::memcpy(h.analyzer.bytes.data(), in.data() + 16, 8);
  h.message_checksum.s2 = LoadAs<uint16_t>(in.data() + kChecksumAt, swap);
  h.message_checksum.s1 = LoadAs<uint16_t>(in.data() + kChecksumAt + 2, swap);
}

template <class Args>
DafsStatus FindWriteData(std::span<const std::byte> message, const Args& args,
                         uint32_t inline_write_header_size, std::span<const std::byte>& data) {
  size_t position = EndOfArgs(Args::kProc);
  if (args.write_padded) {
    // The least negotiable value is 136; APPEND_INLINE ends before it.
    if (inline_write_header_size < position) return DafsStatus::kInval;
    position = inline_write_header_size;
  }
  if (position > message.size() || args.byte_count > message.size() - position) {
    return DafsStatus::kInval;
  }
  data = message.subspan(position, args.byte_count);
  return DafsStatus::kOk;
}

// The component statuses of 9.3.
bool IsComponentStatus(DafsStatus status) {
  switch (status) {
    case DafsStatus::kPerm:
    case DafsStatus::kNoEnt:
    case DafsStatus::kIo:
    case DafsStatus::kAcces:
    case DafsStatus::kExist:
    case DafsStatus::kNotDir:
    case DafsStatus::kIsDir:
    case DafsStatus::kNameTooLong:
    case DafsStatus::kStale:
    case DafsStatus::kFhExpired:
    case DafsStatus::kMoved:
    case DafsStatus::kSymlink:
    case DafsStatus::kDelay:
      return true;
    default:
      return false;
  }
}

// The pre-execution statuses of 9.3. NOTSUPP is one only from step 6 on, but the response to it is
// always a bare header.
bool IsPreExecutionStatus(DafsStatus status) {
  switch (status) {
    case DafsStatus::kChksum:
    case DafsStatus::kIllegalProt:
    case DafsStatus::kIllegalState:
    case DafsStatus::kNotAuthenticated:
    case DafsStatus::kChainForm:
    case DafsStatus::kChainBroken:
    case DafsStatus::kNoCreds:
      return true;
    default:
      return false;
  }
}

}  // namespace

size_t EncodeResponseHeaderOnly(const ResponseHeader& header, ByteOrder order,
                                std::span<std::byte> out, bool checksum) {
  WriteResponseHeader(header, order, out, kHeaderSize, checksum);
  return kHeaderSize;
}

void WriteResponseHeader(const ResponseHeader& header, ByteOrder order, std::span<std::byte> out,
                         size_t message_bytes, bool checksum) {
  StoreResponseHeader(header, static_cast<uint32_t>(message_bytes), order, out);
  if (checksum) StoreChecksum(out, ComputeChecksum(out.first(message_bytes), order), order);
}

absl::StatusOr<size_t> EncodeErrorResponse(const ResponseHeader& header, Proc proc, ByteOrder order,
                                           std::span<std::byte> out, const EncodeOptions& options) {
  const ProcInfo* info = FindProc(proc);
  const size_t result_bytes =
      info != nullptr && CarriesResult(proc, header.status, options.claim_type) ? info->res_size
                                                                                : 0;
  const size_t message_bytes = Up8(kHeaderSize + result_bytes);
  if (out.size() < message_bytes) {
    return StatusFromDafs(DafsStatus::kTooSmall,
                          absl::StrCat("encode ", message_bytes, " bytes into ", out.size()));
  }
  std::memset(out.data(), 0, message_bytes);
  WriteResponseHeader(header, order, out, message_bytes, options.checksum);
  return message_bytes;
}

absl::StatusOr<DecodedRequestHeader> DecodeRequestHeader(std::span<const std::byte> message,
                                                         std::optional<ByteOrder> expected) {
  const auto framing = CheckFraming(message, kRequestMagic, 36, expected);
  if (!framing.ok()) return framing.status();
  const bool swap = NeedsSwap(framing->order);
  DecodedRequestHeader d;
  d.order = framing->order;
  RequestHeader& h = d.header;
  LoadCommon(message, swap, h, h.desired_nreq, h.chain_flags);
  std::memcpy(h.cred_handle.bytes.data(), message.data() + 28, 4);
  h.procedure = static_cast<Proc>(LoadAs<uint32_t>(message.data() + 32, swap));
  h.request_len = framing->length;
  return d;
}

absl::StatusOr<DecodedResponseHeader> DecodeResponseHeader(std::span<const std::byte> message,
                                                           std::optional<ByteOrder> expected) {
  const auto framing = CheckFraming(message, kResponseMagic, 32, expected);
  if (!framing.ok()) return framing.status();
  const bool swap = NeedsSwap(framing->order);
  DecodedResponseHeader d;
  d.order = framing->order;
  ResponseHeader& h = d.header;
  LoadCommon(message, swap, h, h.target_nreq, h.spec_cond);
  h.status = static_cast<DafsStatus>(LoadAs<uint32_t>(message.data() + 28, swap));
  h.response_len = framing->length;
  h.attributes_at = LoadAs<uint32_t>(message.data() + 36, swap);
  return d;
}

DafsStatus FindInlineData(std::span<const std::byte> message, const WriteInlineArgs& args,
                          uint32_t inline_write_header_size, std::span<const std::byte>& data) {
  return FindWriteData(message, args, inline_write_header_size, data);
}

DafsStatus FindInlineData(std::span<const std::byte> message, const AppendInlineArgs& args,
                          uint32_t inline_write_header_size, std::span<const std::byte>& data) {
  return FindWriteData(message, args, inline_write_header_size, data);
}

absl::StatusOr<std::span<const std::byte>> FindInlineData(std::span<const std::byte> message,
                                                          const ReadInlineRes& res) {
  constexpr size_t kDataAt = EndOfRes(Proc::kReadInline);
  if (message.size() < kDataAt || res.bytes_read > message.size() - kDataAt) {
    return absl::DataLossError(absl::StrCat("response to READ_INLINE: bytes_read ", res.bytes_read,
                                            " of ", message.size(), " bytes received"));
  }
  return message.subspan(kDataAt, res.bytes_read);
}

// One switch for the exceptional procedures of 9.3.
bool CarriesResult(Proc proc, DafsStatus status, OpenClaimType claim_type) {
  if (status == DafsStatus::kOk) return true;
  switch (proc) {
    case Proc::kLock:
    case Proc::kLockt:
      return internal::IsLockConflict(status);
    case Proc::kLookup:
      return IsComponentStatus(status);
    case Proc::kOpen:
      return IsComponentStatus(status) && claim_type != OpenClaimType::kPrevious &&
             claim_type != OpenClaimType::kCreateUnlinked;
    case Proc::kSetattrInline:
    case Proc::kSetattrDirect:
      return !IsPreExecutionStatus(status);
    case Proc::kClientAuth:
    case Proc::kClientConnectAuth:
    case Proc::kConnectBind:
      return status == DafsStatus::kGssContinueInit;
    default:
      return false;
  }
}

std::string ToString(const RequestHeader& h) {
  return absl::StrCat(Text(Name(h.procedure)), " stream=", h.stream_id, " seq=", h.seq_number,
                      " chain=0x", absl::Hex(h.chain_flags), " nreq=", h.desired_nreq,
                      " len=", h.request_len);
}

std::string ToString(const ResponseHeader& h) {
  return absl::StrCat(Text(Name(h.status)), " stream=", h.stream_id, " seq=", h.seq_number,
                      " cond=0x", absl::Hex(h.spec_cond), " nreq=", h.target_nreq,
                      " len=", h.response_len);
}

}  // namespace dafs::wire
