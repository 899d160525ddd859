#include "wire/rpcrdma/requester.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"
#include "wire/rpcrdma/refusal.h"

namespace dafs::rpcrdma {
namespace {

uint32_t XidOf(const Bytes& message) {
  uint32_t xid = 0;
  XdrDecoder xdr(message);
  xdr(xid);
  return xid;
}

std::span<const std::byte> DataOf(const Call::Argument& argument) {
  return {argument.data.data, argument.data.size_bytes};
}

Bytes WholeMessage(const Call& call) {
  return WithItems<Call::Argument>(call.message, call.arguments, 0, DataOf);
}

// The size of the header of an inline reply to `call`.
size_t ReplyHeaderBytes(const Header& call) {
  Header reply = call;
  reply.chunks.reads.clear();
  reply.chunks.reply.reset();
  return EncodeHeader(reply).size();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Requester>> Requester::Create(Loop& loop, Link& link) {
  const Options& options = link.options;
  dat::Domain& domain = link.channel->domain();
  const absl::Status there = domain.windows();
  const bool windows = there.ok() || (options.windows_anyway && absl::IsFailedPrecondition(there));
  std::unique_ptr<Requester> requester(new Requester(loop, link));
  ASSIGN_OR_RETURN(requester->long_messages_,
                   Slab::Create(domain, size_t{2} * options.credits, options.long_bytes,
                                windows ? dat::Access::kWindows : dat::Access::kRemoteBoth));
  for (size_t slot = options.credits; slot > 0; --slot) requester->free_slots_.push_back(slot - 1);
  return requester;
}

Requester::~Requester() {
  for (const auto& [xid, call] : calls_) loop_.Cancel(call->timer);
}

uint32_t Requester::Allowed() const {
  // RPCRDMA2 8: one call until the peer has granted credits.
  return granted_ == 0 ? 1 : std::min(granted_, link_.options.credits);
}

void Requester::Start(Call call, Done done) {
  if (!ended_.ok()) return done(ended_);
  const absl::Time deadline = Loop::Now() + call.timeout;
  const uint32_t xid = XidOf(call.message);
  if (call.message.size() < 8 || Knows(xid)) {
    return done(absl::InvalidArgumentError(
        absl::StrCat("call ", xid, ": no RPC call, or its XID is in use")));
  }
  waiting_.push_back({std::move(call), std::move(done), deadline});
  if (connected_) SendQueued();
}

void Requester::SendQueued() {
  connected_ = true;
  while (!waiting_.empty() && ended_.ok() && calls_.size() < Allowed()) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    const uint32_t xid = XidOf(next.call.message);
    if (Knows(xid)) {
      next.done(absl::InvalidArgumentError(absl::StrCat("call ", xid, ": its XID is in use")));
      continue;
    }
    auto call = std::make_unique<Outstanding>();
    call->call = std::move(next.call);
    call->done = std::move(next.done);
    call->slot = free_slots_.back();
    free_slots_.pop_back();
    call->timer = loop_.RunAfter(next.deadline - Loop::Now(), [this, xid] { OnTimeout(xid); });
    calls_.emplace(xid, std::move(call));
    Send(xid);
  }
}

void Requester::OnTimeout(uint32_t xid) {
  const auto at = calls_.find(xid);
  if (at == calls_.end()) return;
  at->second->timer = 0;
  std::string strays;
  if (stray_replies_ > 0) strays = absl::StrCat("; ", stray_replies_, " replies named other XIDs");
  link_.fail(absl::DeadlineExceededError(
      absl::StrCat("no reply within ", absl::FormatDuration(at->second->call.timeout), strays)));
}

void Requester::Send(uint32_t xid) {
  Outstanding& call = *calls_.at(xid);
  Bytes payload;
  const absl::Status status = Build(call, &payload);
  if (!status.ok()) return Finish(xid, status);
  link_.SendOrFail(call.header, payload);
}

absl::StatusOr<Segment> Requester::Expose(Outstanding& call, const dat::Segment& part,
                                          dat::Access access) {
  if (part.region->access() != dat::Access::kWindows) {
    return Segment{part.region->context(), part.size_bytes,
                   part.region->TargetAddressOf(part.data)};
  }
  ASSIGN_OR_RETURN(const dat::RemoteBuffer window,
                   link_.channel->endpoint().PostBind(part, access));
  call.windows.push_back(window.context);
  return Segment{window.context, part.size_bytes, window.target_address};
}

absl::Status Requester::AddReplyMemory(Outstanding& call) {
  const Call& asked = call.call;
  Header& header = call.header;
  uint32_t needed = asked.max_reply_bytes;
  if (call.form.no_write_chunks) {
    for (const dat::Segment& result : asked.results) {
      needed += static_cast<uint32_t>(XdrPadded(result.size_bytes));
    }
  } else {
    for (const dat::Segment& result : asked.results) {
      ASSIGN_OR_RETURN(const Segment segment, Expose(call, result, dat::Access::kRemoteWrite));
      header.chunks.writes.push_back({segment});
    }
  }
  needed = std::max(needed, call.form.reply_bytes);
  if (call.form.reply_bytes == 0 && ReplyHeaderBytes(header) + needed <= link_.ReplyLimit()) {
    return absl::OkStatus();
  }
  if (needed > link_.options.long_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a reply may need ", needed, " bytes, and there is memory for ", link_.options.long_bytes));
  }
  const dat::Segment memory =
      long_messages_->Part(call.slot + link_.options.credits, link_.options.long_bytes);
  ASSIGN_OR_RETURN(const Segment segment, Expose(call, memory, dat::Access::kRemoteWrite));
  header.chunks.reply = WriteChunk{segment};
  return absl::OkStatus();
}

absl::Status Requester::AddArguments(Outstanding& call, bool all) {
  if (!all) return absl::OkStatus();
  for (const Call::Argument& argument : call.call.arguments) {
    ASSIGN_OR_RETURN(const Segment segment, Expose(call, argument.data, dat::Access::kRemoteRead));
    call.header.chunks.reads.push_back({argument.position, segment});
  }
  return absl::OkStatus();
}

absl::Status Requester::MakeLong(Outstanding& call, const Bytes& message) {
  if (message.size() > link_.options.long_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("a call of ", message.size(),
                                                     " bytes, and there is memory for ",
                                                     link_.options.long_bytes));
  }
  const dat::Segment memory =
      long_messages_->Part(call.slot, static_cast<uint32_t>(message.size()));
  std::ranges::copy(message, memory.data);
  ASSIGN_OR_RETURN(const Segment segment, Expose(call, memory, dat::Access::kRemoteRead));
  call.header.proc = Proc::kNoMessage;
  call.header.chunks.reads.insert(call.header.chunks.reads.begin(), ReadSegment{0, segment});
  return absl::OkStatus();
}

// 7.2.3: one handle that the responder may invalidate; zero if there is none. Only windows may be
// invalidated: other registrations outlive the call.
void Requester::ChooseInvalidated(Outstanding& call) const {
  const bool asks = link_.options.remote_invalidation && call.header.version == kVersion2;
  call.header.chunks.invalidate = asks && !call.windows.empty() ? call.windows.front() : 0;
}

// 6.2.2: without other information, a client takes backward calls without chunks only.
absl::Status Requester::CheckBackward(const Outstanding& call) const {
  if (link_.is_client) return absl::OkStatus();
  const ChunkLists& chunks = call.header.chunks;
  const bool has_chunks =
      !chunks.reads.empty() || !chunks.writes.empty() || chunks.reply.has_value();
  const BackwardSupport support =
      link_.version == kVersion2 ? link_.peer.backward : BackwardSupport::kInline;
  if (support == BackwardSupport::kNone) {
    return absl::FailedPreconditionError("the client takes no backward calls");
  }
  if (has_chunks && support == BackwardSupport::kInline) {
    return absl::FailedPreconditionError("the client takes backward calls without chunks only");
  }
  return absl::OkStatus();
}

absl::Status Requester::Build(Outstanding& call, Bytes* payload) {
  const Call& asked = call.call;
  Header& header = call.header;
  header = Header();
  header.xid = XidOf(asked.message);
  header.version = link_.version;
  header.credits = link_.options.credits;
  if (header.version == 0) {
    return absl::FailedPreconditionError("the client has not said which version it speaks");
  }
  RETURN_IF_ERROR(AddReplyMemory(call));
  const size_t limit = link_.SendLimit();
  Bytes whole = WholeMessage(asked);
  if (EncodeHeader(header).size() + whole.size() <= limit && !call.form.one_long_message) {
    *payload = std::move(whole);
  } else {
    const bool apart = !call.form.one_long_message;
    RETURN_IF_ERROR(AddArguments(call, apart));
    if (apart && EncodeHeader(header).size() + asked.message.size() <= limit) {
      *payload = asked.message;
    } else {
      RETURN_IF_ERROR(MakeLong(call, apart ? asked.message : whole));
    }
  }
  ChooseInvalidated(call);
  RETURN_IF_ERROR(CheckBackward(call));
  if (EncodeHeader(header).size() + payload->size() > limit) {
    return absl::InvalidArgumentError("the chunk lists of the call do not fit into a message");
  }
  return absl::OkStatus();
}

bool Requester::TakeCredits(const Header& header) {
  if (header.credits == 0) {
    // No call could follow, and none could be repeated.
    link_.fail(
        absl::FailedPreconditionError("the peer granted 0 credits, so that no call is allowed"));
    return false;
  }
  granted_ = header.credits;
  return true;
}

absl::StatusOr<Reply> Requester::TakeReply(const Outstanding& call, const Header& header,
                                           std::span<const std::byte> payload) const {
  const ChunkLists& sent = call.header.chunks;
  const ChunkLists& got = header.chunks;
  if (!got.reads.empty() || got.writes.size() != sent.writes.size()) {
    return absl::DataLossError("reply: its chunk lists are not those of the call");
  }
  Reply reply;
  for (size_t i = 0; i < sent.writes.size(); ++i) {
    uint64_t placed = 0;
    for (const Segment& segment : got.writes[i]) placed += segment.length;
    if (placed > sent.writes[i].front().length) {
      return absl::DataLossError(absl::StrCat("reply: ", placed, " bytes in a write chunk of ",
                                              sent.writes[i].front().length));
    }
    reply.placed.push_back(static_cast<uint32_t>(placed));
  }
  if (header.proc == Proc::kMessage) {
    reply.message.assign(payload.begin(), payload.end());
    return reply;
  }
  uint64_t length = 0;
  if (got.reply.has_value()) {
    for (const Segment& segment : *got.reply) length += segment.length;
  }
  if (!sent.reply.has_value() || length < 8 || length > sent.reply->front().length) {
    return absl::DataLossError(absl::StrCat("reply: ", length, " bytes in a reply chunk of ",
                                            sent.reply ? sent.reply->front().length : 0));
  }
  const dat::Segment memory =
      long_messages_->Part(call.slot + link_.options.credits, static_cast<uint32_t>(length));
  reply.message.assign(memory.data, memory.data + memory.size_bytes);
  return reply;
}

void Requester::OnReply(const Header& header, std::span<const std::byte> payload,
                        std::optional<uint32_t> invalidated) {
  const auto at = calls_.find(header.xid);
  if (at == calls_.end() || at->second->ending > 0) {
    ++stray_replies_;
    return;
  }
  Outstanding& call = *at->second;
  if (header.version != call.header.version) {
    return link_.fail(absl::DataLossError(absl::StrCat(
        "a call of version ", call.header.version, " got a reply of version ", header.version)));
  }
  if (invalidated.has_value()) {
    if (*invalidated != call.header.chunks.invalidate || *invalidated == 0) {
      return link_.fail(absl::DataLossError("the peer invalidated memory that it may not"));
    }
    std::erase(call.windows, *invalidated);
  }
  if (!TakeCredits(header)) return;
  link_.version_agreed = true;
  Finish(header.xid, TakeReply(call, header, payload));
  SendQueued();
}

void Requester::OnBadReply(uint32_t xid, const std::string& why) {
  if (!Knows(xid)) {
    ++stray_replies_;
    return;
  }
  Finish(xid, absl::DataLossError(why));
}

void Requester::ChooseVersion(uint32_t xid, const ErrorBody& error) {
  const Options& options = link_.options;
  refused_version_ = error;
  const uint32_t refused = link_.version;
  const uint32_t best = std::min(error.high, refused - 1);
  if (link_.version_agreed || best < std::max(error.low, options.lowest_version) || best == 0) {
    return Finish(xid, absl::UnimplementedError(absl::StrCat(
                           "the peer refuses version ", refused, " and takes ", error.low, " to ",
                           error.high, "; there is no other common version")));
  }
  link_.version = best;
  Again(xid);
}

void Requester::Again(uint32_t xid) {
  EndWindows(xid);
  if (Knows(xid)) Send(xid);
}

absl::Status Requester::NextForm(const Outstanding& call, const ErrorBody& error,
                                 Form* next) const {
  absl::Status refused = RefusalStatus(error);
  const bool has_writes = !call.header.chunks.writes.empty();
  switch (error.code) {
    case ErrorCode::kReadChunks:
      if (call.header.proc == Proc::kNoMessage || call.header.chunks.reads.empty()) return refused;
      next->one_long_message = true;
      return absl::OkStatus();
    case ErrorCode::kWriteChunks:
      if (!has_writes) return refused;
      next->no_write_chunks = true;
      next->reply_bytes = std::max(next->reply_bytes, uint32_t{1});
      return absl::OkStatus();
    case ErrorCode::kReplyResource: {
      const uint64_t had = call.header.chunks.reply ? call.header.chunks.reply->front().length : 0;
      if (has_writes) next->no_write_chunks = true;
      if (!has_writes && error.length_needed <= had) return refused;
      next->reply_bytes = std::max(error.length_needed, uint32_t{1});
      return absl::OkStatus();
    }
    default:
      return refused;
  }
}

void Requester::OnError(const Header& header) {
  const auto at = calls_.find(header.xid);
  if (at == calls_.end() || at->second->ending > 0) {
    ++stray_replies_;
    return;
  }
  Outstanding& call = *at->second;
  if (header.error.code == ErrorCode::kVersion) return ChooseVersion(header.xid, header.error);
  Form next = call.form;
  const absl::Status status = NextForm(call, header.error, &next);
  if (!status.ok()) {
    Finish(header.xid, status);
    return SendQueued();
  }
  call.form = next;
  Again(header.xid);
}

// The windows of an attempt. A reply may arrive before they have ended, since nothing of the next
// attempt needs them.
void Requester::EndWindows(uint32_t xid) {
  const auto at = calls_.find(xid);
  if (at == calls_.end()) return;
  for (const uint32_t window : std::exchange(at->second->windows, {})) {
    const absl::Status status = link_.channel->EndWindow(window, [](const absl::Status&) {});
    if (!status.ok()) return link_.fail(status);
  }
}

void Requester::Finish(uint32_t xid, absl::StatusOr<Reply> result) {
  Outstanding& call = *calls_.at(xid);
  call.result = std::move(result);
  const std::vector<uint32_t> windows = std::exchange(call.windows, {});
  call.ending = windows.size() + 1;  // one for this function
  for (const uint32_t window : windows) {
    // The call exists until its windows have ended, or the connection.
    const absl::Status status = link_.channel->EndWindow(window, [this, xid](const absl::Status&) {
      const auto at = calls_.find(xid);
      if (at != calls_.end() && --at->second->ending == 0) Report(xid);
    });
    if (!status.ok()) return link_.fail(status);
  }
  if (--call.ending == 0) Report(xid);
}

void Requester::Report(uint32_t xid) {
  const auto at = calls_.find(xid);
  const std::unique_ptr<Outstanding> call = std::move(at->second);
  calls_.erase(at);
  loop_.Cancel(call->timer);
  free_slots_.push_back(call->slot);
  call->done(std::move(call->result));
  SendQueued();
}

void Requester::FailAll(const absl::Status& why) {
  if (!ended_.ok()) return;
  ended_ = why;
  std::vector<Done> failed;
  for (auto& [xid, call] : calls_) {
    loop_.Cancel(call->timer);
    failed.push_back(std::move(call->done));
  }
  for (Waiting& waiting : waiting_) failed.push_back(std::move(waiting.done));
  calls_.clear();
  waiting_.clear();
  for (Done& done : failed) done(why);
}

}  // namespace dafs::rpcrdma
