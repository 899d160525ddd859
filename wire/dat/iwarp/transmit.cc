#include "wire/dat/iwarp/transmit.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace dafs::dat::iwarp {
namespace {

// Whole pages in an FPDU of maximum length, so that the next payload's target stays aligned.
constexpr size_t kLongPayloadBytes = size_t{15} * 4096;
// The most batches in one Flush, so that a fast peer cannot keep the thread here.
constexpr int kMaxBatchesPerFlush = 8;

}  // namespace

Transmit::Transmit(const EndpointOptions& options, IwarpDomain& domain,
                   CompletionQueue& completions)
    : domain_(domain),
      completions_(completions),
      max_segments_(options.max_segments),
      work_(options.max_sends),
      segments_(size_t{options.max_sends} * options.max_segments),
      queue_(options.max_sends),
      waiting_reads_(options.max_sends),
      reads_(options.max_rdma_reads),
      responses_(kMaxInboundReads) {
  free_work_.reserve(options.max_sends);
  for (uint32_t i = options.max_sends; i-- > 0;) free_work_.push_back(i);
}

void Transmit::Start(const StreamOptions& options) {
  options_ = options;
  batch_.UseCrc(options.crc);
  held_ = options.wait_for_first_fpdu;
}

uint32_t Transmit::NewWork(WorkKind kind, uint64_t cookie, std::span<const Segment> segments) {
  const uint32_t slot = free_work_.back();
  free_work_.pop_back();
  Work& work = work_[slot];
  work = {};
  work.active = true;
  work.kind = kind;
  work.cookie = cookie;
  work.sequence = next_sequence_++;
  // Skip empty segments: they would only make empty pieces and read requests.
  Segment* to = &segments_[size_t{slot} * max_segments_];
  for (const Segment& segment : segments) {
    if (segment.size_bytes == 0) continue;
    to[work.segment_count++] = segment;
    work.total_bytes += segment.size_bytes;
  }
  queue_.push_back(slot);
  return slot;
}

std::span<const Segment> Transmit::SegmentsOf(uint32_t work) const {
  return {&segments_[size_t{work} * max_segments_], work_[work].segment_count};
}

void Transmit::PostSend(uint64_t cookie, std::span<const Segment> from,
                        const Endpoint::SendOptions& options) {
  Work& work = work_[NewWork(WorkKind::kSend, cookie, from)];
  work.signaled = options.signaled;
  if (options.invalidate_context.has_value()) {
    work.opcode = Opcode::kSendInvalidate;
    work.invalidate_stag = *options.invalidate_context;
  }
  queued_bytes_ += work.total_bytes;
}

void Transmit::PostRdmaWrite(uint64_t cookie, std::span<const Segment> from, RemoteBuffer to,
                             bool signaled) {
  Work& work = work_[NewWork(WorkKind::kWrite, cookie, from)];
  work.opcode = Opcode::kRdmaWrite;
  work.signaled = signaled;
  work.remote = to;
  queued_bytes_ += work.total_bytes;
}

void Transmit::PostRdmaRead(uint64_t cookie, std::span<const Segment> into, RemoteBuffer from) {
  Work& work = work_[NewWork(WorkKind::kRead, cookie, into)];
  work.opcode = Opcode::kReadRequest;
  work.remote = from;
}

bool Transmit::PushResponse(const ReadRequest& request) {
  if (responses_.full()) return false;
  responses_.push_back(request);
  return true;
}

void Transmit::FinishHeadRead() {
  const ReadInFlight read = reads_.pop_front();
  if (read.last_of_work) FinishWork(read.work, absl::OkStatus());
}

bool Transmit::drained() const {
  return !CanSend() && waiting_reads_.empty() && reads_.empty() && !options_.stream.has_output();
}

bool Transmit::CanSend() const {
  return !batch_.empty() || message_.kind != MessageKind::kNone || !queue_.empty() ||
         !responses_.empty() ||
         (!waiting_reads_.empty() && reads_.size() < options_.max_rdma_reads);
}

absl::Status Transmit::Flush() {
  if (held_) return absl::OkStatus();
  blocked_ = !options_.stream.Flush();
  for (int batch = 0; !blocked_ && batch < kMaxBatchesPerFlush; ++batch) {
    if (batch_.empty() && !FillBatch()) break;
    absl::Status error;
    if (!SendBatch(&error)) return error;
  }
  return absl::OkStatus();
}

// Makes FPDUs until no room or no work is left. Returns false if there was no work.
bool Transmit::FillBatch() {
  batch_.Clear();
  while (batch_.HasRoom()) {
    if (message_.kind == MessageKind::kNone && !PickMessage()) break;
    if (message_.kind != MessageKind::kNone && !AddMessageFpdu()) break;
  }
  return !batch_.empty();
}

// Chooses the next message. A read that exceeds the limit of reads in flight waits, and later posts
// overtake it. Returns false if there is nothing to send.
bool Transmit::PickMessage() {
  while (!queue_.empty() && work_[queue_.front()].kind == WorkKind::kRead) {
    waiting_reads_.push_back(queue_.pop_front());
  }
  if (!waiting_reads_.empty() && reads_.size() < options_.max_rdma_reads) {
    AddReadRequest();
    return true;
  }
  const bool has_response = !responses_.empty();
  if (!has_response && queue_.empty()) return false;
  message_ = {};
  if (has_response && (response_turn_ || queue_.empty())) {
    message_.kind = MessageKind::kResponse;
  } else {
    message_.kind = MessageKind::kWork;
    message_.work = queue_.pop_front();
  }
  response_turn_ = message_.kind == MessageKind::kWork;
  return true;
}

void Transmit::AddReadRequest() {
  const uint32_t slot = waiting_reads_.front();
  Work& work = work_[slot];
  const std::span<const Segment> segments = SegmentsOf(slot);
  ReadInFlight read;
  read.work = slot;
  if (!segments.empty()) {
    const Segment& segment = segments[work.next_segment++];
    read.at = segment.data;
    read.size_bytes = segment.size_bytes;
    read.sink_stag = segment.region->context();
    read.sink_to = segment.region->TargetAddressOf(segment.data);
  }
  read.last_of_work = work.next_segment == segments.size();
  ReadRequest request;
  request.sink_stag = read.sink_stag;
  request.sink_to = read.sink_to;
  request.size_bytes = read.size_bytes;
  request.source_stag = work.remote.context;
  request.source_to = work.remote.target_address + work.requested_bytes;
  work.requested_bytes += read.size_bytes;
  reads_.push_back(read);
  if (read.last_of_work) waiting_reads_.pop_front();

  SegmentHeader header;
  header.last = true;
  header.opcode = Opcode::kReadRequest;
  header.qn = kReadRequestQueue;
  header.msn = next_msn_[kReadRequestQueue]++;
  constexpr size_t kBytes = kUntaggedHeaderBytes + kReadRequestBytes;
  std::byte* fpdu = batch_.BeginFpdu(kBytes);
  EncodeSegmentHeader(header, fpdu + kFpduHeaderBytes);
  EncodeReadRequest(request, fpdu + kFpduHeaderBytes + kUntaggedHeaderBytes);
  batch_.EndFpdu(fpdu, kBytes, 0);
}

size_t Transmit::PayloadLimit(bool tagged) const {
  if (options_.max_ulpdu_bytes >= kMaxUlpduBytes) return kLongPayloadBytes;
  return options_.max_ulpdu_bytes - HeaderBytes(tagged);
}

// Makes one FPDU of message_. Returns false if the message cannot continue.
bool Transmit::AddMessageFpdu() {
  SegmentHeader header;
  uint64_t total = 0;
  if (message_.kind == MessageKind::kResponse) {
    const ReadRequest& request = responses_.front();
    header.tagged = true;
    header.opcode = Opcode::kReadResponse;
    header.stag = request.sink_stag;
    header.to = request.sink_to + message_.offset;
    total = request.size_bytes;
  } else {
    const Work& work = work_[message_.work];
    header.opcode = work.opcode;
    header.tagged = IsTagged(work.opcode);
    header.stag = header.tagged ? work.remote.context : work.invalidate_stag;
    header.to = work.remote.target_address + message_.offset;
    header.qn = kSendQueue;
    header.msn = next_msn_[kSendQueue];
    header.mo = static_cast<uint32_t>(message_.offset);
    total = work.total_bytes;
  }
  const size_t limit = std::min<uint64_t>(PayloadLimit(header.tagged), total - message_.offset);
  std::byte* source = nullptr;
  if (message_.kind == MessageKind::kResponse && !FindSource(limit, &source)) return false;
  std::byte* fpdu = batch_.BeginFpdu(header.size_bytes());
  size_t payload = limit;
  if (message_.kind == MessageKind::kWork) {
    payload = AddWorkPayload(limit);
  } else if (limit > 0) {
    batch_.AddPayload(source, limit);
  }
  message_.offset += payload;
  header.last = message_.offset == total;
  EncodeSegmentHeader(header, fpdu + kFpduHeaderBytes);
  batch_.EndFpdu(fpdu, header.size_bytes(), payload);
  if (!header.last) return true;
  if (message_.kind == MessageKind::kWork) {
    queued_bytes_ -= total;
    if (!header.tagged) ++next_msn_[kSendQueue];
    batch_.Mark(message_.work);
  } else {
    responses_.pop_front();
  }
  message_ = {};
  return true;
}

// Adds up to `limit` bytes from the segments, as long as pieces are free.
size_t Transmit::AddWorkPayload(size_t limit) {
  const std::span<const Segment> segments = SegmentsOf(message_.work);
  size_t added = 0;
  while (added < limit && batch_.HasRoomForPayload()) {
    const Segment& segment = segments[message_.segment];
    const size_t size =
        std::min<size_t>(limit - added, segment.size_bytes - message_.segment_offset);
    batch_.AddPayload(segment.data + message_.segment_offset, size);
    added += size;
    message_.segment_offset += static_cast<uint32_t>(size);
    if (message_.segment_offset == segment.size_bytes) {
      ++message_.segment;
      message_.segment_offset = 0;
    }
  }
  return added;
}

// Finds the next `size` bytes of the response. Looks the region up for each FPDU, because it may
// have been deregistered.
bool Transmit::FindSource(size_t size, std::byte** source) {
  if (size == 0) return true;
  const ReadRequest& request = responses_.front();
  const IwarpDomain::Verdict verdict = domain_.Check(
      request.source_stag, request.source_to + message_.offset, size, Access::kRemoteRead, source);
  lost_source_ = verdict != IwarpDomain::Verdict::kAllowed;
  return !lost_source_;
}

// Sends as much of the batch as possible. Returns false if the socket accepted only a part, or
// failed (`*error`).
bool Transmit::SendBatch(absl::Status* error) {
  if (!batch_.Send(options_.stream)) {
    if (IsWaiting(errno)) {
      blocked_ = true;
    } else {
      *error = options_.stream.Error("send");
    }
    return false;
  }
  while (const std::optional<uint32_t> work = batch_.NextSent()) {
    FinishWork(*work, absl::OkStatus());
  }
  blocked_ = !batch_.empty() || options_.stream.has_output();
  return !blocked_;
}

void Transmit::FinishWork(uint32_t slot, absl::Status status) {
  Work& work = work_[slot];
  work.active = false;
  free_work_.push_back(slot);
  if (!work.signaled && status.ok()) {
    completions_.ForgetSend();
    return;
  }
  Completion completion;
  completion.event = work.kind == WorkKind::kSend    ? Event::kSend
                     : work.kind == WorkKind::kWrite ? Event::kRdmaWrite
                                                     : Event::kRdmaRead;
  completion.cookie = work.cookie;
  completion.status = std::move(status);
  completions_.Push(std::move(completion));
}

bool Transmit::SendTerminate(const Terminate& terminate) {
  absl::Status error;
  if (!batch_.empty() && !SendBatch(&error)) return false;
  batch_.Clear();
  std::array<std::byte, kMaxTerminateBytes> payload;
  const size_t payload_bytes = EncodeTerminate(terminate, payload.data());
  SegmentHeader header;
  header.last = true;
  header.opcode = Opcode::kTerminate;
  header.qn = kTerminateQueue;
  header.msn = next_msn_[kTerminateQueue]++;
  std::byte* fpdu = batch_.BeginFpdu(kUntaggedHeaderBytes + payload_bytes);
  EncodeSegmentHeader(header, fpdu + kFpduHeaderBytes);
  std::memcpy(fpdu + kFpduHeaderBytes + kUntaggedHeaderBytes, payload.data(), payload_bytes);
  batch_.EndFpdu(fpdu, kUntaggedHeaderBytes + payload_bytes, 0);
  return SendBatch(&error);
}

void Transmit::FailAll(const absl::Status& why) {
  std::vector<uint32_t> unfinished;
  for (uint32_t slot = 0; slot < work_.size(); ++slot) {
    if (work_[slot].active) unfinished.push_back(slot);
  }
  std::sort(unfinished.begin(), unfinished.end(),
            [this](uint32_t a, uint32_t b) { return work_[a].sequence < work_[b].sequence; });
  for (uint32_t slot : unfinished) FinishWork(slot, why);
  queue_.clear();
  waiting_reads_.clear();
  reads_.clear();
  responses_.clear();
  message_ = {};
  batch_.Clear();
  queued_bytes_ = 0;
  blocked_ = false;
}

}  // namespace dafs::dat::iwarp
