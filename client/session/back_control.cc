#include "client/session/back_control.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"
#include "wire/codec/codec.h"
#include "wire/rules/argument_rules.h"

namespace dafs::client {

using wire::DafsStatus;

absl::StatusOr<std::unique_ptr<BackControl>> BackControl::Connect(Loop& loop,
                                                                  dat::Provider& provider,
                                                                  dat::Domain& domain,
                                                                  const Options& options,
                                                                  bool checksums) {
  auto channel = absl::WrapUnique(new BackControl(loop, checksums));
  RETURN_IF_ERROR(channel->SetUp(provider, domain, options));
  return channel;
}

BackControl::BackControl(Loop& loop, bool checksums)
    : Channel(
          loop,
          {.use = wire::ChannelUse::kBackControl, .sends = kRequests, .receives = kRequests + 1}),
      checksums_(checksums),
      self_(std::make_shared<BackControl*>(this)) {
  for (uint64_t i = 1; i < kRequests; ++i) free_sends_.push_back(i);  // 0: CONNECT_BIND
}

void BackControl::Propose(wire::ConnectBindArgs& args) {
  args.max_request_size = kMaxRequest;
  args.max_response_size = kMaxResponse;
  args.max_requests = kRequests;
}

// WIRE 9.4 CONNECT_BIND: the server grants at most what the client requested.
absl::Status BackControl::Agree(const wire::ConnectBindArgs& asked,
                                const wire::ConnectBindRes& res) {
  if (res.max_requests < 1 || res.max_requests > asked.max_requests ||
      res.max_request_size > asked.max_request_size ||
      res.max_response_size > asked.max_response_size ||
      res.max_response_size < wire::kHeaderSize) {
    return absl::DataLossError(
        absl::StrCat("the server breaks the rules of negotiation: max_requests ", res.max_requests,
                     ", max_request_size ", res.max_request_size, ", max_response_size ",
                     res.max_response_size));
  }
  return absl::OkStatus();
}

void BackControl::OnSent(uint64_t index) {
  free_sends_.push_back(index);
  if (unsent_.empty()) return;
  const Unsent next = unsent_.front();
  unsent_.pop_front();
  absl::Status sent = Answer(next.header, next.with_attributes);
  if (!sent.ok()) Fail(std::move(sent));
}

void BackControl::OnMessage(uint64_t index, uint32_t size_bytes) {
  const std::span<const std::byte> message = ReceiveBuffer(index, size_bytes);
  wire::RequestContext context;
  context.order = order_;
  context.has_session = context.authenticated = true;
  context.checksum_due = checksums_;
  context.back_control = true;
  // Every response grants this many, even if CONNECT_BIND agreed on fewer.
  context.granted_nreq = kRequests;
  wire::ChainState unchained;  // this channel has no chains (4.3)
  const wire::RequestVerdict verdict = wire::CheckRequest(message, context, unchained);
  if (verdict.close_channel) {
    return Fail(
        absl::DataLossError(absl::StrCat("directive of ", size_bytes, " bytes with a bad header")));
  }
  Directive directive;
  const DafsStatus status =
      verdict.status == DafsStatus::kOk ? Execute(message, verdict, directive) : verdict.status;
  wire::ResponseHeader header =
      wire::ResponseTo(verdict.header, status, static_cast<uint16_t>(kRequests));
  header.protocol_version = verdict.response_version;
  // 3.2.6.3: posts the receive again before it sends the response.
  absl::Status answered = PostReceive(index);
  BackControlHandler* handler = handler_;
  if (answered.ok() && !directive.changed.empty() && handler != nullptr) {
    return Announce(std::move(directive.changed), header);
  }
  const bool with_attributes =
      status == DafsStatus::kOk && verdict.header.procedure == wire::Proc::kBcGetattr;
  if (answered.ok()) answered = Answer(header, with_attributes);
  if (!answered.ok()) return Fail(std::move(answered));
  if (handler == nullptr) return;
  if (!directive.completions.empty()) return handler->OnBatchCompletion(directive.completions);
  if (const auto& lock = directive.lock_free; lock.has_value()) {
    handler->OnLockFree(lock->filehandle, lock->offset, lock->length);
  }
}

// The handler answers `header` later. It may destroy the channel.
void BackControl::Announce(std::vector<wire::Changed> changed, const wire::ResponseHeader& header) {
  if (announced_ == kRequests) {
    return Fail(absl::DataLossError("the server has more directives outstanding than allowed"));
  }
  ++announced_;
  handler_->OnChanged(std::move(changed), [weak = std::weak_ptr(self_), header] {
    const std::shared_ptr<BackControl*> self = weak.lock();
    if (self == nullptr) return;  // the channel is gone
    BackControl& channel = **self;
    --channel.announced_;
    absl::Status answered = channel.Answer(header);
    if (!answered.ok()) channel.Fail(std::move(answered));
  });
}

// Without the delegation: DAFS-6.6.3-02, DAFS-6.6.4-04.
DafsStatus BackControl::Execute(std::span<const std::byte> message,
                                const wire::RequestVerdict& verdict, Directive& directive) const {
  switch (verdict.header.procedure) {
    case wire::Proc::kBcNull:
      return DafsStatus::kOk;
    case wire::Proc::kBcBatchCompletion: {
      wire::BcBatchCompletionArgs args;
      const DafsStatus status = wire::DecodeArgs(message, verdict.order, args);
      if (status == DafsStatus::kOk) directive.completions = std::move(args.completions);
      return status;
    }
    case wire::Proc::kBcChanged: {
      wire::BcChangedArgs args;
      DafsStatus status = wire::DecodeArgs(message, verdict.order, args);
      if (status == DafsStatus::kOk) status = wire::CheckRules(args);
      if (status == DafsStatus::kOk) directive.changed = std::move(args.changed);
      return status;
    }
    case wire::Proc::kBcLockFree: {
      const DafsStatus status =
          wire::DecodeArgs(message, verdict.order, directive.lock_free.emplace());
      if (status != DafsStatus::kOk) directive.lock_free.reset();
      return status;
    }
    case wire::Proc::kBcGetattr: {
      wire::BcGetattrArgs args;
      const DafsStatus status = wire::DecodeArgs(message, verdict.order, args);
      if (status != DafsStatus::kOk) return status;
      const bool held = handler_ != nullptr && handler_->HoldsWriteDelegation(args.filehandle);
      return held ? DafsStatus::kOk : DafsStatus::kBadHandle;
    }
    case wire::Proc::kBcRecall: {
      wire::BcRecallArgs args;
      const DafsStatus status = wire::DecodeArgs(message, verdict.order, args);
      if (status != DafsStatus::kOk) return status;
      if (handler_ == nullptr) return DafsStatus::kBadHandle;
      return handler_->OnRecall(args.filehandle, args.state_id);
    }
    default:
      return DafsStatus::kNotSupp;
  }
}

// A response is a header without a body, except that of BC_GETATTR. This client keeps no data back,
// so the server knows all attributes: the response has none.
absl::Status BackControl::Answer(const wire::ResponseHeader& header, bool with_attributes) {
  if (free_sends_.empty()) {
    if (unsent_.size() >= kRequests) {
      return absl::DataLossError("the server has more directives outstanding than allowed");
    }
    unsent_.push_back({header, with_attributes});
    return absl::OkStatus();
  }
  const uint64_t index = free_sends_.back();
  free_sends_.pop_back();
  if (!with_attributes) {
    return Send(index,
                wire::EncodeResponseHeaderOnly(header, order_, SendBuffer(index), checksums_));
  }
  wire::EncodeOptions options;
  options.checksum = checksums_;
  absl::StatusOr<size_t> size =
      wire::EncodeResponse(header, wire::BcGetattrRes(), order_, SendBuffer(index), options);
  if (!size.ok()) return size.status();
  return Send(index, *size);
}

}  // namespace dafs::client
