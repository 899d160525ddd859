// Checks a received segment before any of it is placed.
// Spec: RFC 5041, 7; RFC 5040, 7.
#include "wire/dat/iwarp/receive.h"

namespace dafs::dat::iwarp {
namespace {

FaultCode ToReadFault(IwarpDomain::Verdict verdict) {
  switch (verdict) {
    case IwarpDomain::Verdict::kOutOfBounds:
      return fault::kReadBounds;
    case IwarpDomain::Verdict::kWraps:
      return fault::kReadToWrap;
    case IwarpDomain::Verdict::kNoAccess:
      return fault::kAccessRights;
    case IwarpDomain::Verdict::kAllowed:
    case IwarpDomain::Verdict::kInvalidStag:
      break;
  }
  return fault::kReadInvalidStag;
}

}  // namespace

FaultCode ToTaggedFault(IwarpDomain::Verdict verdict) {
  switch (verdict) {
    case IwarpDomain::Verdict::kOutOfBounds:
      return fault::kBounds;
    case IwarpDomain::Verdict::kWraps:
      return fault::kToWrap;
    case IwarpDomain::Verdict::kNoAccess:
      return fault::kAccessRights;  // RFC 5041 has no code for this; RFC 5040, 7.2 names this one
    case IwarpDomain::Verdict::kAllowed:
    case IwarpDomain::Verdict::kInvalidStag:
      break;
  }
  return fault::kInvalidStag;
}

// RFC 5041, 7 and RFC 5040, 7: whether this segment may be placed.
std::optional<FaultCode> Receive::CheckSegment(std::span<const std::byte> staged_payload) {
  switch (header_.opcode) {
    case Opcode::kRdmaWrite: {
      tagged_open_ = !header_.last;
      if (payload_left_ == 0) return std::nullopt;  // names no memory: RFC 5040, 5.2
      std::byte* at = nullptr;
      const IwarpDomain::Verdict verdict =
          domain_.Check(header_.stag, header_.to, payload_left_, Access::kRemoteWrite, &at);
      if (verdict != IwarpDomain::Verdict::kAllowed) return ToTaggedFault(verdict);
      return std::nullopt;
    }
    case Opcode::kReadResponse:
      tagged_open_ = !header_.last;
      return CheckReadResponse();
    case Opcode::kReadRequest:
      return CheckReadRequest(staged_payload);
    case Opcode::kTerminate:
      return CheckTerminate(staged_payload);
    case Opcode::kSend:
    case Opcode::kSendInvalidate:
    case Opcode::kSendSolicited:
    case Opcode::kSendSolicitedInvalidate:
      return CheckSend();
  }
  return fault::kUnexpectedOpcode;
}

std::optional<FaultCode> Receive::CheckSend() {
  if (header_.msn != next_msn_[kSendQueue]) return fault::kMsnRange;
  if (header_.mo != message_bytes_) return fault::kInvalidMo;
  if (receives_.empty()) return fault::kNoBuffer;
  if (payload_left_ > receives_.front().into.size_bytes - message_bytes_) {
    return fault::kMessageTooLong;
  }
  if (message_bytes_ > 0 && header_.opcode != message_opcode_) return fault::kUnexpectedOpcode;
  message_opcode_ = header_.opcode;
  return std::nullopt;
}

std::optional<FaultCode> Receive::CheckReadRequest(std::span<const std::byte> payload) {
  if (header_.msn != next_msn_[kReadRequestQueue]) return fault::kMsnRange;
  if (header_.mo != 0) return fault::kInvalidMo;
  if (payload.size() < payload_left_ || payload_left_ > kReadRequestBytes) {
    return fault::kMessageTooLong;
  }
  if (payload_left_ < kReadRequestBytes || !header_.last) return fault::kStreamCatastrophic;
  const ReadRequest request = DecodeReadRequest(payload.first<kReadRequestBytes>());
  if (request.size_bytes > 0) {
    std::byte* at = nullptr;
    const IwarpDomain::Verdict verdict = domain_.Check(
        request.source_stag, request.source_to, request.size_bytes, Access::kRemoteRead, &at);
    if (verdict != IwarpDomain::Verdict::kAllowed) return ToReadFault(verdict);
  }
  if (!transmit_.PushResponse(request)) return fault::kNoBuffer;  // more than our IRD
  ++next_msn_[kReadRequestQueue];
  return std::nullopt;
}

std::optional<FaultCode> Receive::CheckTerminate(std::span<const std::byte> payload) {
  if (header_.msn != next_msn_[kTerminateQueue]) return fault::kMsnRange;
  if (header_.mo != 0) return fault::kInvalidMo;
  const std::optional<Terminate> terminate = DecodeTerminate(payload.first(payload_left_));
  if (!terminate.has_value()) return fault::kStreamCatastrophic;
  fault_.by_terminate = true;
  return terminate->code;
}

std::optional<FaultCode> Receive::CheckReadResponse() {
  const Transmit::ReadInFlight* read = transmit_.HeadRead();
  if (read == nullptr) return fault::kUnexpectedOpcode;
  if (header_.stag != read->sink_stag) return fault::kInvalidStag;
  if (header_.to != read->sink_to + read->received_bytes) return fault::kBounds;
  const uint32_t left = read->size_bytes - read->received_bytes;
  if (payload_left_ > left || header_.last != (payload_left_ == left)) return fault::kBounds;
  return std::nullopt;
}

}  // namespace dafs::dat::iwarp
