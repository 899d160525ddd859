#include "wire/dat/verbs/send_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"
#include "wire/dat/verbs/doorbell.h"
#include "wire/dat/verbs/opener.h"

namespace dafs::dat::verbs {
namespace {

uint64_t TotalBytes(std::span<const ibv_sge> segments) {
  uint64_t total = 0;
  for (const ibv_sge& segment : segments) total += segment.length;
  return total;
}

// The kind of request, with the context that it binds or invalidates.
void SetOpcode(const SendQueue::Operation& operation, ibv_send_wr* request) {
  switch (operation.event) {
    case Event::kRdmaWrite:
      request->opcode = IBV_WR_RDMA_WRITE;
      break;
    case Event::kRdmaRead:
      request->opcode = IBV_WR_RDMA_READ;
      break;
    case Event::kInvalidated:
      if (operation.window != nullptr) {
        request->opcode = IBV_WR_BIND_MW;
        request->bind_mw = {operation.window, operation.window_key, operation.bind};
      } else {
        request->opcode = IBV_WR_LOCAL_INV;
        request->invalidate_rkey = *operation.invalidate_context;
      }
      break;
    default:
      request->opcode = operation.invalidate_context ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
      if (operation.invalidate_context) {
        request->invalidate_rkey = *operation.invalidate_context;
        request->wr.rdma.rkey = *operation.invalidate_context;  // libsiw reads it here
      }
      break;
  }
}

}  // namespace

SendQueue::SendQueue(const SendQueueLimits& limits, ReadyList& ready)
    : limits_(limits),
      ready_(ready),
      operations_(limits.max_operations),
      segments_(size_t{limits.max_operations} * limits.max_segments),
      requests_(limits.max_requests),
      chain_segments_(kMostChained *
                      std::max(limits.max_request_segments, limits.max_read_segments)) {
  chain_.reserve(kMostChained);
  free_.reserve(limits.max_operations);
  for (uint32_t slot = limits.max_operations; slot-- > 0;) free_.push_back(slot);
}

std::span<ibv_sge> SendQueue::SegmentsOf(uint32_t slot) {
  return std::span(segments_).subspan(size_t{slot} * limits_.max_segments,
                                      operations_[slot].segment_count);
}

absl::Status SendQueue::Submit(const Operation& operation, std::span<const ibv_sge> segments) {
  if (free_.empty()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("post: ", limits_.max_operations, " operations are outstanding"));
  }
  if (operation.event == Event::kSend && (TotalBytes(segments) > limits_.max_request_bytes ||
                                          segments.size() > limits_.max_request_segments)) {
    return absl::InvalidArgumentError(absl::StrCat("post send: ", TotalBytes(segments),
                                                   " bytes are more than one message of ",
                                                   limits_.max_request_bytes));
  }
  if (operation.event == Event::kRdmaRead && limits_.max_reads == 0) {
    return absl::FailedPreconditionError("post RDMA read: the peer accepts none");
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  Slot& entry = operations_[slot];
  entry.operation = operation;
  entry.order = next_order_++;
  entry.segment_count = static_cast<uint32_t>(segments.size());
  entry.next_segment = entry.next_offset = 0;
  entry.bytes_posted = 0;
  entry.used = true;
  entry.posted_all = false;
  entry.status = absl::OkStatus();
  std::ranges::copy(segments, SegmentsOf(slot).begin());

  const bool is_read = operation.event == Event::kRdmaRead;
  std::deque<uint32_t>& waiting = is_read ? reads_ : ordered_;
  const uint64_t first = tail_;
  absl::Status status;
  while (status.ok() && waiting.empty() && !entry.posted_all &&
         (is_read ? RoomForRead() : HasRoom())) {
    status = PostNext(slot);
  }
  if (status.ok() && !operation.more) status = Ring();
  if (!status.ok()) {
    // If no part of it reached the device, treat it as never posted. Otherwise Abandon reports it.
    if (tail_ <= first) Release(slot);
    return status;
  }
  if (!entry.posted_all) waiting.push_back(slot);
  return absl::OkStatus();
}

absl::Status SendQueue::Pump() {
  while (!ordered_.empty() && HasRoom()) {
    const uint32_t slot = ordered_.front();
    if (absl::Status status = PostNext(slot); !status.ok()) return status;
    if (operations_[slot].posted_all) ordered_.pop_front();
  }
  while (!reads_.empty() && RoomForRead()) {
    const uint32_t slot = reads_.front();
    if (absl::Status status = PostNext(slot); !status.ok()) return status;
    if (operations_[slot].posted_all) reads_.pop_front();
  }
  return Ring();
}

std::span<ibv_sge> SendQueue::NextChainSegments() {
  const size_t each = chain_segments_.size() / kMostChained;
  return std::span(chain_segments_).subspan(chain_.size() * each, each);
}

// Takes the next part of `entry` that one request can have, and writes its segments to `part`.
// Returns the number of segments; `*bytes` is their length.
size_t SendQueue::TakePart(Slot& entry, std::span<const ibv_sge> segments, size_t most_segments,
                           std::span<ibv_sge> part, uint64_t* bytes) const {
  size_t count = 0;
  while (entry.next_segment < segments.size() && count < most_segments &&
         *bytes < limits_.max_request_bytes) {
    const ibv_sge& whole = segments[entry.next_segment];
    const uint32_t length = static_cast<uint32_t>(
        std::min<uint64_t>(whole.length - entry.next_offset, limits_.max_request_bytes - *bytes));
    if (length > 0) {
      part[count++] = {
          .addr = whole.addr + entry.next_offset, .length = length, .lkey = whole.lkey};
    }
    *bytes += length;
    entry.next_offset += length;
    if (entry.next_offset < whole.length) break;
    ++entry.next_segment;
    entry.next_offset = 0;
  }
  return count;
}

absl::Status SendQueue::PostNext(uint32_t slot) {
  Slot& entry = operations_[slot];
  const Operation& operation = entry.operation;
  const bool is_read = operation.event == Event::kRdmaRead;
  const std::span<ibv_sge> segments = SegmentsOf(slot);
  const std::span<ibv_sge> part = NextChainSegments();
  uint64_t bytes = 0;
  const size_t count =
      TakePart(entry, segments, is_read ? limits_.max_read_segments : limits_.max_request_segments,
               part, &bytes);

  ibv_send_wr request = {};
  request.sg_list = part.data();
  request.num_sge = static_cast<int>(count);
  SetOpcode(operation, &request);
  if (operation.event == Event::kRdmaWrite || is_read) {
    request.wr.rdma.remote_addr = operation.remote.target_address + entry.bytes_posted;
    request.wr.rdma.rkey = operation.remote.context;
  }
  if (!is_read && bytes > 0 && bytes <= limits_.inline_bytes) {
    request.send_flags |= IBV_SEND_INLINE;
  }
  entry.bytes_posted += bytes;
  entry.posted_all = entry.next_segment == segments.size();
  const uint32_t half = std::max(1u, std::min(limits_.max_operations, limits_.max_requests) / 2);
  const bool signaled = is_read || (operation.signaled && entry.posted_all) ||
                        bytes >= limits_.signal_bytes || unsignaled_ + 1 >= half;
  return Post(request, bytes,
              {.slot = slot, .last = entry.posted_all, .read = is_read, .signaled = signaled});
}

absl::Status SendQueue::Post(const ibv_send_wr& request, uint64_t bytes, Request entry) {
  chain_.push_back(request);
  ibv_send_wr& last = chain_.back();
  last.wr_id = tail_;
  if (entry.signaled) last.send_flags |= IBV_SEND_SIGNALED;
  if (chain_.size() > 1) chain_[chain_.size() - 2].next = &last;
  chain_bytes_ += bytes;
  At(tail_++) = entry;
  unsignaled_ = entry.signaled ? 0 : unsignaled_ + 1;
  if (entry.read) ++reads_in_flight_;
  return chain_.size() == kMostChained || chain_bytes_ >= kHoldBackBytes ? Ring()
                                                                         : absl::OkStatus();
}

absl::Status SendQueue::Ring() {
  if (chain_.empty()) return absl::OkStatus();
  ibv_send_wr* bad = nullptr;
  int error = std::abs(ibv_post_send(queue_pair_, chain_.data(), &bad));
  // A software device has the requests in its queue already; only the doorbell was refused.
  if (bad == nullptr && Opener::IsRefusal(error)) error = RingDoorbell(queue_pair_);
  // For a request in the middle of a chain, libsiw sets only `bad` and returns no error.
  if (bad != nullptr && error == 0) error = ENOMEM;
  absl::Status status;
  if (error != 0) {
    const auto taken = static_cast<size_t>(bad == nullptr ? 0 : bad - chain_.data());
    status = absl::UnavailableError(absl::StrCat("post work, ", taken, " of ", chain_.size(),
                                                 " requests taken: ", std::strerror(error)));
    for (size_t left = chain_.size() - taken; left > 0; --left) {
      if (At(--tail_).read) --reads_in_flight_;
    }
  } else {
    // Set it only now: a device needs both keys of a window, and reads the old one from here.
    for (const ibv_send_wr& request : chain_) {
      if (request.opcode == IBV_WR_BIND_MW) request.bind_mw.mw->rkey = request.bind_mw.rkey;
    }
  }
  chain_.clear();
  chain_bytes_ = 0;
  return status;
}

void SendQueue::Complete(uint64_t request, const absl::Status& status) {
  if (request < head_ || request >= tail_ || At(request).retired) {
    return;  // the device reported a completion twice
  }
  for (; swept_ < request; ++swept_) {
    if (!At(swept_).read) Retire(swept_, absl::OkStatus());
  }
  Retire(request, status);
  while (head_ < tail_ && At(head_).retired) ++head_;
  swept_ = std::max(swept_, head_);
}

void SendQueue::Retire(uint64_t request, const absl::Status& status) {
  Request& entry = At(request);
  if (std::exchange(entry.retired, true)) return;
  if (entry.read) --reads_in_flight_;
  if (entry.slot == kNone) return;
  Slot& slot = operations_[entry.slot];
  if (!status.ok()) slot.status = status;
  if (entry.last) Report(entry.slot, slot.status);
}

absl::Status SendQueue::Flush() {
  if (head_ == tail_ || At(tail_ - 1).signaled) return Ring();
  return PostNothing();
}

absl::Status SendQueue::Probe() { return head_ == tail_ ? PostNothing() : Flush(); }

absl::Status SendQueue::PostNothing() {
  // An empty RDMA write names no memory of either side (IBA 9.4.3, RFC 5040 5.1).
  ibv_send_wr request = {};
  request.opcode = IBV_WR_RDMA_WRITE;
  RETURN_IF_ERROR(
      Post(request, 0, {.slot = kNone, .last = false, .read = false, .signaled = true}));
  return Ring();
}

void SendQueue::Report(uint32_t slot, const absl::Status& status) {
  const Operation& operation = operations_[slot].operation;
  if (operation.signaled || !status.ok()) {
    const bool ended = operation.event == Event::kInvalidated && operation.window == nullptr;
    ready_.Push({.event = operation.event,
                 .cookie = operation.cookie,
                 .size_bytes = 0,
                 .status = status,
                 .invalidated_context = ended ? operation.invalidate_context : std::nullopt});
  }
  Release(slot);
}

void SendQueue::Release(uint32_t slot) {
  operations_[slot].used = false;
  free_.push_back(slot);
}

void SendQueue::Abandon(const absl::Status& status) {
  queue_pair_ = nullptr;
  chain_.clear();
  chain_bytes_ = 0;
  ordered_.clear();
  reads_.clear();
  head_ = swept_ = tail_;
  reads_in_flight_ = 0;
  std::vector<uint32_t> left;
  for (uint32_t slot = 0; slot < operations_.size(); ++slot) {
    if (operations_[slot].used) left.push_back(slot);
  }
  std::ranges::sort(left, {}, [this](uint32_t slot) { return operations_[slot].order; });
  for (uint32_t slot : left) {
    Report(slot, operations_[slot].status.ok() ? status : operations_[slot].status);
  }
}

}  // namespace dafs::dat::verbs
