#include "wire/rpcrdma/responder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"

namespace dafs::rpcrdma {
namespace {

uint64_t LengthOf(const WriteChunk& chunk) {
  uint64_t length = 0;
  for (const Segment& segment : chunk) length += segment.length;
  return length;
}

ErrorBody ErrorOf(ErrorCode code) { return {.code = code}; }

}  // namespace

absl::StatusOr<std::unique_ptr<Responder>> Responder::Create(Link& link, Handler handler) {
  std::unique_ptr<Responder> responder(new Responder(link, std::move(handler)));
  const Options& options = link.options;
  dat::Domain& domain = link.channel->domain();
  for (std::optional<Slab>* slab :
       {&responder->heads_, &responder->messages_, &responder->results_}) {
    ASSIGN_OR_RETURN(
        *slab, Slab::Create(domain, options.credits, options.long_bytes, dat::Access::kLocal));
  }
  for (size_t index = 0; index < options.credits; ++index) {
    responder->slots_.push_back(std::make_unique<Slot>());
    responder->slots_.back()->index = index;
    responder->free_.push_back(index);
  }
  return responder;
}

uint32_t Responder::Grant(uint32_t asked) const {
  return std::clamp(asked, uint32_t{1}, link_.options.credits);
}

void Responder::Refuse(const Header& header, ErrorBody error) {
  ++refused_;
  if (header.version == kVersion1 && error.code != ErrorCode::kVersion) {
    error = ErrorOf(ErrorCode::kBadXdr);
  }
  Header answer;
  answer.xid = header.xid;
  answer.version = header.version;
  answer.credits = Grant(header.credits);
  answer.proc = Proc::kError;
  answer.error = error;
  link_.SendOrFail(answer, {});
}

bool Responder::CheckLimits(const Header& header, const std::vector<ReadChunk>& chunks) {
  const Options& options = link_.options;
  const size_t items = static_cast<size_t>(
      std::ranges::count_if(chunks, [](const ReadChunk& chunk) { return chunk.position != 0; }));
  if (items > options.max_read_chunks) {
    Refuse(header, {.code = ErrorCode::kReadChunks, .most = options.max_read_chunks});
    return false;
  }
  const std::vector<WriteChunk>& writes = header.chunks.writes;
  if (writes.size() > options.max_write_chunks) {
    if (options.max_write_chunks > 0) {
      Refuse(header, {.code = ErrorCode::kWriteChunks, .most = options.max_write_chunks});
    } else {
      uint64_t needed = kDefaultInline;  // of a reply that has these results in it
      for (const WriteChunk& chunk : writes) needed += LengthOf(chunk);
      Refuse(header,
             {.code = ErrorCode::kReplyResource,
              .length_needed = static_cast<uint32_t>(std::min<uint64_t>(needed, UINT32_MAX))});
    }
    return false;
  }
  const auto too_many = [&](const auto& segments) {
    return segments.size() > options.max_segments;
  };
  if (std::ranges::any_of(chunks, [&](const ReadChunk& c) { return too_many(c.segments); }) ||
      std::ranges::any_of(writes, too_many) ||
      (header.chunks.reply.has_value() && too_many(*header.chunks.reply))) {
    Refuse(header, {.code = ErrorCode::kSegments, .most = options.max_segments});
    return false;
  }
  return true;
}

void Responder::OnCall(const Header& header, std::span<const std::byte> payload) {
  std::vector<ReadChunk> chunks = GroupReads(header.chunks.reads);
  const bool is_long = header.proc == Proc::kNoMessage;
  const bool has_position_zero = !chunks.empty() && chunks.front().position == 0;
  if (is_long != has_position_zero) return Refuse(header, ErrorOf(ErrorCode::kBadXdr));
  if (!CheckLimits(header, chunks)) return;
  if (free_.empty()) {
    return link_.fail(
        absl::FailedPreconditionError(absl::StrCat("the peer has more calls outstanding than the ",
                                                   link_.options.credits, " that were granted")));
  }
  Slot& slot = *slots_[free_.back()];
  slot = Slot();
  slot.index = free_.back();
  free_.pop_back();
  slot.header = header;
  slot.request.was_long = is_long;
  slot.request.read_chunks = chunks.size() - has_position_zero;
  slot.request.write_chunks = header.chunks.writes.size();
  slot.chunks = std::move(chunks);
  if (slot.chunks.empty()) return Answer(slot, payload);
  slot.inline_part.assign(payload.begin(), payload.end());
  StartReads(slot);
}

void Responder::StartReads(Slot& slot) {
  slot.message_bytes = slot.inline_part.size();
  if (slot.chunks.front().position == 0) {
    slot.reads_message = true;
    const ReadChunk first = std::move(slot.chunks.front());
    slot.chunks.erase(slot.chunks.begin());
    slot.message_bytes = first.length;
    if (first.length > link_.options.long_bytes) {
      Free(slot);
      return Refuse(slot.header, ErrorOf(ErrorCode::kSystem));
    }
    slot.reads = 1;
    uint32_t at = 0;
    for (const Segment& segment : first.segments) {
      if (segment.length > 0) Read(slot, heads_->Part(slot.index, segment.length, at), segment);
      at += segment.length;
    }
    return OnRead(slot, absl::OkStatus());
  }
  ReadPieces(slot);
}

void Responder::Read(Slot& slot, dat::Segment into, const Segment& from) {
  ++slot.reads;
  const absl::Status status = link_.channel->Read(
      into, from, [this, &slot](const absl::Status& done) { OnRead(slot, done); });
  if (!status.ok()) OnRead(slot, status);
}

void Responder::OnRead(Slot& slot, const absl::Status& status) {
  slot.failed.Update(status);
  if (--slot.reads > 0) return;
  if (!slot.failed.ok()) return link_.fail(slot.failed);
  AfterReads(slot);
}

void Responder::AfterReads(Slot& slot) {
  if (std::exchange(slot.reads_message, false)) return ReadPieces(slot);
  Answer(slot, {messages_->Part(slot.index, 0).data, slot.plan.size});
}

void Responder::ReadPieces(Slot& slot) {
  absl::StatusOr<ReadPlan> plan =
      PlanReads(slot.chunks, slot.message_bytes, link_.options.long_bytes);
  if (!plan.ok()) {
    Free(slot);
    return Refuse(slot.header, ErrorOf(ErrorCode::kBadXdr));
  }
  slot.plan = *std::move(plan);
  const dat::Segment message = messages_->Part(slot.index, 0);
  const std::byte* const head = slot.header.proc == Proc::kNoMessage
                                    ? heads_->Part(slot.index, 0).data
                                    : slot.inline_part.data();
  std::fill_n(message.data, slot.plan.size, std::byte{});
  slot.reads = 1;
  for (const Piece& piece : slot.plan.pieces) {
    if (piece.is_inline) {
      std::copy_n(head + piece.inline_at, piece.size, message.data + piece.at);
    } else {
      Read(slot, messages_->Part(slot.index, piece.from.length, static_cast<uint32_t>(piece.at)),
           piece.from);
    }
  }
  OnRead(slot, absl::OkStatus());
}

void Responder::Answer(Slot& slot, std::span<const std::byte> message) {
  slot.request.message = message;
  absl::StatusOr<Response> response = absl::UnimplementedError("no handler");
  if (handler_ != nullptr) response = handler_(slot.request);
  if (!response.ok()) {
    Free(slot);
    return Refuse(slot.header, ErrorOf(ErrorCode::kSystem));
  }
  Header reply;
  reply.xid = slot.header.xid;
  reply.version = slot.header.version;
  reply.credits = Grant(slot.header.credits);
  reply.chunks.direction = Direction::kReply;
  Bytes text;
  if (const auto error = PlaceResults(slot, *response, reply, &text)) {
    Free(slot);
    return Refuse(slot.header, *error);
  }
  SendReply(slot, std::move(reply), text);
}

absl::Status Responder::WriteInto(Slot& slot, WriteChunk& chunk, std::span<const std::byte> data) {
  for (Segment& segment : chunk) {
    segment.length = static_cast<uint32_t>(std::min<size_t>(segment.length, data.size()));
    if (segment.length == 0) continue;
    const dat::Segment from =
        results_->Part(slot.index, segment.length, static_cast<uint32_t>(slot.written));
    std::copy_n(data.begin(), segment.length, from.data);
    RETURN_IF_ERROR(link_.channel->Write(from, segment));
    slot.written += segment.length;
    data = data.subspan(segment.length);
  }
  return absl::OkStatus();
}

std::optional<ErrorBody> Responder::PlaceResults(Slot& slot, const Response& response,
                                                 Header& reply, Bytes* message) {
  using Result = Response::Result;
  const std::vector<WriteChunk>& offered = slot.header.chunks.writes;
  const size_t placed = std::min(offered.size(), response.results.size());
  size_t bytes = 0, padded = 0;
  for (size_t i = 0; i < placed; ++i) {
    const size_t needed = response.results[i].data.size();
    if (LengthOf(offered[i]) < needed) {
      return ErrorBody{.code = ErrorCode::kWriteResource,
                       .chunk_index = static_cast<uint32_t>(i + 1),
                       .length_needed = static_cast<uint32_t>(needed)};
    }
    bytes += needed;
    padded += XdrPadded(needed);
  }
  if (bytes > link_.options.long_bytes) return ErrorOf(ErrorCode::kSystem);
  // Room for a whole reply is decided before anything is written, so that an error leaves the
  // memory of the requester as it was.
  *message = WithItems<Result>(
      response.message, std::span(response.results).subspan(placed), padded,
      [](const Result& result) { return std::span<const std::byte>(result.data); });
  reply.chunks.writes = offered;
  const bool fits = EncodeHeader(reply).size() + message->size() <= link_.SendLimit();
  const uint64_t room = slot.header.chunks.reply ? LengthOf(*slot.header.chunks.reply) : 0;
  if (!fits && room < message->size()) {
    return ErrorBody{.code = ErrorCode::kReplyResource,
                     .length_needed = static_cast<uint32_t>(message->size())};
  }
  if (!fits && bytes + message->size() > link_.options.long_bytes) {
    return ErrorOf(ErrorCode::kSystem);
  }
  for (size_t i = 0; i < offered.size(); ++i) {
    const std::span<const std::byte> data =
        i < placed ? std::span<const std::byte>(response.results[i].data)
                   : std::span<const std::byte>();
    if (!WriteInto(slot, reply.chunks.writes[i], data).ok()) return ErrorOf(ErrorCode::kSystem);
  }
  if (!fits) {
    reply.proc = Proc::kNoMessage;
    reply.chunks.reply = slot.header.chunks.reply;
    if (!WriteInto(slot, *reply.chunks.reply, *message).ok()) return ErrorOf(ErrorCode::kSystem);
    message->clear();
  }
  return std::nullopt;
}

// 7.2.3: exactly the handle that the requester named, if it is one of its own.
std::optional<uint32_t> Responder::HandleToInvalidate(const Header& call) const {
  const ChunkLists& chunks = call.chunks;
  const uint32_t handle = chunks.invalidate;
  if (handle == 0 || call.version != kVersion2 || !link_.options.remote_invalidation ||
      !link_.channel->endpoint().can_invalidate()) {
    return std::nullopt;
  }
  const auto is_it = [handle](const Segment& segment) { return segment.handle == handle; };
  const auto has_it = [&](const WriteChunk& chunk) { return std::ranges::any_of(chunk, is_it); };
  const bool named = std::ranges::any_of(chunks.reads, is_it, &ReadSegment::target) ||
                     std::ranges::any_of(chunks.writes, has_it) ||
                     (chunks.reply.has_value() && has_it(*chunks.reply));
  return named ? std::optional(handle) : std::nullopt;
}

void Responder::SendReply(Slot& slot, Header reply, const Bytes& message) {
  ++answered_;
  link_.SendOrFail(reply, message, HandleToInvalidate(slot.header),
                   [this, &slot](const absl::Status&) { Free(slot); });
}

}  // namespace dafs::rpcrdma
