#include "wire/dat/iwarp/receive.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/crc32c.h"
#include "wire/dat/iwarp/bytes.h"
#include "wire/dat/iwarp/mpa.h"

namespace dafs::dat::iwarp {
namespace {

// One recv can take a whole message of usual size. The limit is two pages after a tagged header: if
// a long message begins there, the kernel places the rest of it at a page boundary.
constexpr size_t kUsualRecvBytes = kFpduHeaderBytes + kTaggedHeaderBytes + size_t{2} * 4096;
// A payload of at least this size is received directly into its target.
constexpr size_t kDirectBytes = 4096;
// Smaller payloads in a message of several FPDUs mean that the peer cuts FPDUs to TCP segments.
constexpr size_t kSmallPayloadBytes = 8192;
// Holds the longest FPDU, or many FPDUs of a peer that sends short ones.
constexpr size_t kStagingBytes = FpduBytes(kMaxUlpduBytes) + 64;
constexpr size_t kStagingBytesWithCrc = 2 * kStagingBytes;
// Control messages (Read Request, Terminate) are checked as a whole. None is longer than this.
constexpr size_t kMaxControlPayload = 128;
// The most calls of recv in one Run, so that a fast peer cannot keep the thread here.
constexpr int kMaxRecvsPerRun = 64;

// Whether a Terminate repeats the DDP header. It does not if the fault makes the layout doubtful.
bool RepeatsHeader(const FaultCode& code) {
  return code.layer != Layer::kLlp && code.type != 0 && code != fault::kTaggedVersion &&
         code != fault::kUntaggedVersion && code != fault::kRdmapVersion;
}

}  // namespace

Receive::Receive(const EndpointOptions& options, IwarpDomain& domain, CompletionQueue& completions,
                 Transmit& transmit)
    : domain_(domain),
      completions_(completions),
      transmit_(transmit),
      receives_(options.max_receives) {}

void Receive::Start(const StreamOptions& options) {
  stream_ = options.stream;
  crc_ = options.crc;
  staging_bytes_ = crc_ ? kStagingBytesWithCrc : kStagingBytes;
  staging_.reset(new std::byte[staging_bytes_]);  // not touched until first used
}

Receive::Outcome Receive::Run() {
  const uint64_t before = completions_.receives_made();
  socket_empty_ = false;
  for (int recvs = 0;; ++recvs) {
    bool fault = false;
    while (ConsumeStaged(&fault)) {
    }
    if (fault) return Outcome::kFault;
    if (socket_empty_ || completions_.receives_made() != before || recvs == kMaxRecvsPerRun) {
      return Outcome::kIdle;
    }
    Outcome end = Outcome::kIdle;
    if (!ReceiveMore(&end)) return end;
  }
}

// Processes one step of the current FPDU. Returns false if more bytes are needed, or on a fault.
bool Receive::ConsumeStaged(bool* fault) {
  switch (stage_) {
    case Stage::kHeader:
      return BeginFpdu(fault);
    case Stage::kPayload: {
      const size_t size = std::min(end_ - begin_, payload_left_);
      if (size > 0) {
        std::byte* target = Target(size);
        if (target == nullptr) {
          *fault = true;
          return false;
        }
        std::memcpy(target, &staging_[begin_], size);
        begin_ += size;
        Placed(size);
      }
      if (payload_left_ > 0) return false;
      stage_ = Stage::kTrailer;
      return true;
    }
    case Stage::kTrailer: {
      const size_t size = std::min(end_ - begin_, trailer_left_);
      begin_ += size;
      trailer_left_ -= size;
      if (trailer_left_ > 0) return false;
      stage_ = Stage::kHeader;
      if (const std::optional<FaultCode> code = FinishSegment()) {
        SetFault(*code, {});
        *fault = true;
        return false;
      }
      return true;
    }
  }
  return false;
}

// Reads and checks the header of the next FPDU. Returns false if more bytes are needed, or on a
// fault.
bool Receive::BeginFpdu(bool* fault) {
  const std::span<const std::byte> staged(&staging_[begin_], end_ - begin_);
  if (staged.size() < kFpduHeaderBytes) return false;
  ulpdu_bytes_ = GetBig<uint16_t>(staged.data());
  if (crc_) {
    const size_t covered = kFpduHeaderBytes + ulpdu_bytes_ + PadBytes(ulpdu_bytes_);
    if (staged.size() < covered + kCrcBytes) return false;
    if (ExtendCrc32c(0, staged.first(covered)) != GetCrc(&staged[covered])) {
      SetFault(fault::kCrc, {});
      *fault = true;
      return false;
    }
  }
  const std::span<const std::byte> ulpdu =
      staged.subspan(kFpduHeaderBytes, std::min(staged.size() - kFpduHeaderBytes, ulpdu_bytes_));
  const size_t header_bytes = ulpdu.empty() ? 1 : HeaderBytes(TaggedBit(ulpdu[0]));
  if (ulpdu.size() < std::min(header_bytes, ulpdu_bytes_)) return false;
  std::optional<FaultCode> code = DecodeSegmentHeader(ulpdu, ulpdu_bytes_, &header_);
  if (!code.has_value()) {
    const std::span<const std::byte> payload = ulpdu.subspan(header_bytes);
    payload_left_ = ulpdu_bytes_ - header_bytes;
    payload_done_ = 0;
    if (!header_.tagged && header_.qn != kSendQueue) {
      if (payload_left_ > kMaxControlPayload) {
        code = fault::kMessageTooLong;
      } else if (payload.size() < payload_left_) {
        return false;
      }
    }
    if (!code.has_value()) code = CheckSegment(payload);
  }
  if (code.has_value()) {
    SetFault(*code, ulpdu);
    *fault = true;
    return false;
  }
  transmit_.ReleaseHold();
  begin_ += kFpduHeaderBytes + header_bytes;
  trailer_left_ = PadBytes(ulpdu_bytes_) + kCrcBytes;
  if (!header_.tagged && header_.qn != kSendQueue) {
    trailer_left_ += payload_left_;  // checked above, and placed nowhere
    payload_left_ = 0;
  }
  small_fpdus_ = !header_.last && payload_left_ < kSmallPayloadBytes;
  stage_ = Stage::kPayload;
  return true;
}

// Call when the segment's whole FPDU has arrived.
std::optional<FaultCode> Receive::FinishSegment() {
  if (!header_.last) return std::nullopt;
  if (header_.opcode == Opcode::kReadResponse) {
    transmit_.FinishHeadRead();
    return std::nullopt;
  }
  if (!IsSend(header_.opcode)) return std::nullopt;
  Completion completion;
  completion.event = Event::kReceive;
  completion.cookie = receives_.front().cookie;
  completion.size_bytes = message_bytes_;
  if (Invalidates(header_.opcode)) {
    if (!domain_.Invalidate(header_.stag)) return fault::kCannotInvalidate;
    completion.invalidated_context = header_.stag;
  }
  receives_.pop_front();
  ++next_msn_[kSendQueue];
  message_bytes_ = 0;
  completions_.Push(std::move(completion));
  return std::nullopt;
}

// Returns the target of the next `size` bytes of payload. Looks the region up each time, because it
// may be deregistered while a peer writes. In that case sets the fault and returns nullptr.
std::byte* Receive::Target(size_t size) {
  if (IsSend(header_.opcode)) return receives_.front().into.data + message_bytes_;
  if (header_.opcode == Opcode::kReadResponse) {
    const Transmit::ReadInFlight* read = transmit_.HeadRead();
    return read->at + read->received_bytes;
  }
  std::byte* at = nullptr;
  const IwarpDomain::Verdict verdict =
      domain_.Check(header_.stag, header_.to + payload_done_, size, Access::kRemoteWrite, &at);
  if (verdict == IwarpDomain::Verdict::kAllowed) return at;
  SetFault(ToTaggedFault(verdict), {});
  return nullptr;
}

void Receive::Placed(size_t size) {
  payload_left_ -= size;
  payload_done_ += size;
  if (IsSend(header_.opcode)) message_bytes_ += static_cast<uint32_t>(size);
  if (header_.opcode == Opcode::kReadResponse) {
    transmit_.HeadRead()->received_bytes += static_cast<uint32_t>(size);
  }
}

void Receive::SetFault(FaultCode code, std::span<const std::byte> ulpdu) {
  fault_.code = code;
  if (fault_.by_terminate || !RepeatsHeader(code)) return;
  if (ulpdu.empty()) {  // already consumed: encoding it again gives the same bytes
    EncodeSegmentHeader(header_, fault_.ddp_header.data());
    fault_.ddp_header_bytes = header_.size_bytes();
  } else {
    fault_.ddp_header_bytes = std::min(HeaderBytes(TaggedBit(ulpdu[0])), ulpdu.size());
    std::memcpy(fault_.ddp_header.data(), ulpdu.data(), fault_.ddp_header_bytes);
    const std::span<const std::byte> payload = ulpdu.subspan(fault_.ddp_header_bytes);
    if (header_.opcode == Opcode::kReadRequest && code.layer == Layer::kRdmap &&
        payload.size() >= kReadRequestBytes) {
      std::memcpy(fault_.rdma_header.data(), payload.data(), kReadRequestBytes);
      fault_.rdma_header_bytes = kReadRequestBytes;
    }
  }
  fault_.ddp_segment_bytes = static_cast<uint16_t>(ulpdu_bytes_);
}

size_t Receive::StagingBound() const {
  const size_t room = staging_bytes_ - end_;
  return crc_ || small_fpdus_ ? room : std::min(room, kUsualRecvBytes);
}

// Receives once, into target and staging. Returns false if Run must return `*end`.
bool Receive::ReceiveMore(Outcome* end) {
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ > 0) {
    std::memmove(&staging_[0], &staging_[begin_], end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  std::array<iovec, 2> pieces;
  size_t count = 0;
  size_t direct = 0;
  size_t staged = StagingBound();
  if (!crc_ && stage_ == Stage::kPayload && payload_left_ >= kDirectBytes) {
    std::byte* target = Target(payload_left_);
    if (target == nullptr) {
      *end = Outcome::kFault;
      return false;
    }
    direct = payload_left_;
    pieces[count++] = {.iov_base = target, .iov_len = direct};
    // After the payload, stage the trailer. In the middle of a message, stage only the next header
    // too, so that the next payload also goes directly to its target.
    if (!header_.last) staged = trailer_left_ + kFpduHeaderBytes + HeaderBytes(header_.tagged);
  }
  pieces[count++] = {.iov_base = &staging_[end_], .iov_len = staged};
  const ssize_t got = stream_.Receive(std::span(pieces).first(count));
  if (got < 0) {
    if (IsWaiting(errno)) return false;
    lost_status_ = stream_.Error("receive");
    *end = Outcome::kLost;
    return false;
  }
  if (got == 0) {
    *end = Outcome::kClosed;
    if (InMessage()) {
      lost_status_ = absl::UnavailableError("the peer closed in the middle of a message");
      *end = Outcome::kLost;
    }
    return false;
  }
  const size_t bytes = static_cast<size_t>(got);
  socket_empty_ = bytes < direct + staged;
  const size_t placed = std::min(bytes, direct);
  if (placed > 0) Placed(placed);
  end_ += bytes - placed;
  return true;
}

bool Receive::InMessage() const {
  return stage_ != Stage::kHeader || begin_ != end_ || message_bytes_ > 0 || tagged_open_;
}

void Receive::FailAll(const absl::Status& why) {
  while (!receives_.empty()) {
    Completion completion;
    completion.event = Event::kReceive;
    completion.cookie = receives_.pop_front().cookie;
    completion.status = why;
    completions_.Push(std::move(completion));
  }
}

}  // namespace dafs::dat::iwarp
