#include "server/session/directives/back_control.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"
#include "server/session/directives/directive_sender.h"
#include "wire/codec/checksum.h"
#include "wire/codec/codec.h"
#include "wire/protocol/limits.h"

namespace dafs::server {
namespace {

// Message offset of the first completion, and the size of one. WIRE 9.4 BC_BATCH_COMPLETION.
constexpr size_t kCompletions = 56;
constexpr size_t kCompletionBytes = 24;
static_assert(kCompletions + kCompletionBytes == BackControl::kLeastRequestBytes);

}  // namespace

BackControl::BackControl(DirectiveSender& sender, Loop& loop, uint32_t granted,
                         uint32_t request_bytes, wire::ByteOrder order, bool checksums)
    : sender_(sender),
      request_bytes_(request_bytes),
      order_(order),
      checksums_(checksums),
      route_(std::make_shared<BackControlRoute>(loop, this)),
      streams_(granted),
      nreq_(granted) {}

size_t BackControl::most_completions() const {
  return std::min<size_t>((request_bytes_ - kCompletions) / kCompletionBytes, wire::kBatchMax);
}

void BackControl::Enqueue(OwnedEncode encode, Done done, Decode decode) {
  if (ended_) return done(absl::UnavailableError("the Back-control Channel has ended"));
  if (waiting_.empty() && SendNow(encode, done, decode)) return;
  waiting_.push_back({std::move(encode), std::move(done), std::move(decode)});
}

bool BackControl::SendNow(absl::FunctionRef<Encode> encode, Done& done, Decode& decode) {
  // WIRE 11.5: fewer than Nreq are outstanding, and the stream id is below Nreq.
  if (ended_ || sender_.ending() || outstanding_ >= nreq_) return false;
  const auto stream =
      std::find_if(streams_.begin(), streams_.end(), [](const Stream& s) { return !s.busy; });
  if (stream == streams_.end() || stream - streams_.begin() >= nreq_) return false;
  std::unique_ptr<Outgoing> outgoing = sender_.TakeBuffer();
  if (outgoing == nullptr) return false;
  wire::RequestHeader header;
  header.stream_id = static_cast<uint16_t>(stream - streams_.begin());
  header.seq_number = ++stream->seq_number;
  header.analyzer = wire::OpaqueFromUint64<wire::Analyzer>(header.stream_id);
  wire::EncodeOptions options;
  options.checksum = checksums_;
  const absl::StatusOr<size_t> size =
      encode(header, order_, outgoing->buffer->memory().first(request_bytes_), options);
  stream->busy = true;
  stream->done = std::move(done);
  stream->decode = std::move(decode);
  ++outstanding_;
  sender_.SendDirective(std::move(outgoing), size.ok() ? *size : 0);
  return true;
}

void BackControl::SendWaiting() {
  while (!waiting_.empty()) {
    Waiting& first = waiting_.front();
    if (!SendNow(first.encode, first.done, first.decode)) return;
    waiting_.pop_front();
  }
}

void BackControl::End() {
  ended_ = true;
  route_->channel = nullptr;
  std::vector<Done> over;
  for (Stream& stream : streams_) {
    if (std::exchange(stream.busy, false)) over.push_back(std::move(stream.done));
  }
  for (Waiting& waiting : waiting_) over.push_back(std::move(waiting.done));
  waiting_.clear();
  for (Done& done : over) done(absl::UnavailableError("the Back-control Channel has ended"));
}

bool BackControl::IsResponse(std::span<const std::byte> message) const {
  return wire::DecodeResponseHeader(message, order_).ok();
}

absl::StatusOr<absl::AnyInvocable<void()>> BackControl::OnResponse(
    std::span<const std::byte> message) {
  ASSIGN_OR_RETURN(const auto decoded, wire::DecodeResponseHeader(message, order_));
  const wire::ResponseHeader& header = decoded.header;
  if (header.stream_id >= streams_.size() || !streams_[header.stream_id].busy ||
      streams_[header.stream_id].seq_number != header.seq_number ||
      wire::OpaqueToUint64(header.analyzer) != header.stream_id) {
    return absl::DataLossError(absl::StrCat("reply to no directive: stream ", header.stream_id,
                                            ", seq_number ", header.seq_number));
  }
  // If the reply is damaged, another directive would not help.
  if (checksums_ && wire::MessageChecksum(message, order_) != header.message_checksum) {
    return absl::DataLossError("reply to a directive has a wrong checksum");
  }
  Stream& stream = streams_[header.stream_id];
  if (stream.decode != nullptr) RETURN_IF_ERROR(stream.decode(message, order_, header.status));
  stream.busy = false;
  --outstanding_;
  nreq_ = std::max<uint32_t>({nreq_ - 1, header.target_nreq, 1});
  return [done = std::move(stream.done), status = header.status]() mutable { done(status); };
}

}  // namespace dafs::server
