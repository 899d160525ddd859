#include "server/session/channels.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/session/directives/callbacks.h"
#include "server/session/directives/lock_announcer.h"
#include "server/session/session.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Returns the sizes for which the client asks; those that it leaves to the server (0) are the most
// that this server uses. Spec: 6.2.5.
wire::ConnectBindArgs WithDefaults(wire::ConnectBindArgs args) {
  if (args.max_request_size == 0) args.max_request_size = BackControl::kMostRequestBytes;
  if (args.max_response_size == 0) args.max_response_size = wire::kFirstReceiveBytes;
  if (args.max_requests == 0) args.max_requests = BackControl::kMostRequests;
  return args;
}

}  // namespace

Session* Channels::ForReads() const {
  return self_.terms().negotiated().use_rdma_read_channel ? read_ : &self_;
}

const char* Channels::name() const {
  switch (use_) {
    case wire::ChannelUse::kRdmaRead:
      return "RDMA-read Channel";
    case wire::ChannelUse::kBackControl:
      return "Back-control Channel";
    case wire::ChannelUse::kReferences:
      return "reference channel";
  }
  return "channel";
}

ExportedRegions* Channels::exports() const {
  return references_ != nullptr ? references_->channels().exports_.get() : nullptr;
}

Session*& Channels::BoundFor(wire::ChannelUse use) {
  switch (use) {
    case wire::ChannelUse::kRdmaRead:
      return read_;
    case wire::ChannelUse::kBackControl:
      return back_;
    case wire::ChannelUse::kReferences:
      break;
  }
  return references_;
}

DafsStatus Channels::MayBind(const wire::ConnectBindArgs& args, Session& owner) const {
  const wire::AuthType method = args.auth_req.auth_type;
  const ClientIdentity& identity = owner.identity();
  const Connection& connection = self_.connection();
  if (!identity.authenticated() || owner.connection().ending()) return DafsStatus::kIllegalState;
  if (method != identity.auth_type() || !(connection.peer() == owner.connection().peer()) ||
      self_.identity().MayUse(method) != DafsStatus::kOk) {
    return DafsStatus::kNotAuthorized;
  }
  if (owner_ != nullptr) {
    return owner_ == &owner && use_ == args.channel_use ? DafsStatus::kOk
                                                        : DafsStatus::kIllegalState;
  }
  if (args.channel_use == wire::ChannelUse::kReferences) {
    const bool granted = owner.terms().Has(wire::kExtensionReferences);
    return granted && is_for_references() && owner.channels().references_ == nullptr
               ? DafsStatus::kOk
               : DafsStatus::kIllegalState;
  }
  const bool reads = args.channel_use == wire::ChannelUse::kRdmaRead;
  const wire::ClientConnectRes& negotiated = owner.terms().negotiated();
  const bool granted =
      reads ? negotiated.use_rdma_read_channel : negotiated.use_back_control_channel;
  // Contexts of the session are not valid on another device.
  const bool fits = &connection.domain() == &owner.connection().domain();
  const Session* bound = reads ? owner.channels().read_ : owner.channels().back_;
  if (!granted || !fits || bound != nullptr) return DafsStatus::kIllegalState;
  // Spec gap: no minimum is given for what a client offers for directives. Here it is the sizes of
  // this server's directives.
  const wire::ConnectBindArgs wanted = WithDefaults(args);
  const bool of_use = wanted.max_request_size >= BackControl::kLeastRequestBytes &&
                      wanted.max_response_size >= BackControl::kLeastResponseBytes;
  return reads || of_use ? DafsStatus::kOk : DafsStatus::kInval;
}

void Channels::Bind(const wire::ConnectBindArgs& asked, Session& owner) {
  const wire::ConnectBindArgs args = WithDefaults(asked);
  owner_ = &owner;
  use_ = args.channel_use;
  agreed_.max_request_size = args.max_request_size;
  agreed_.max_response_size = args.max_response_size;
  agreed_.max_requests = args.max_requests;
  self_.connection().CancelLimit();
  owner.channels().BoundFor(use_) = &self_;
  if (use_ != wire::ChannelUse::kBackControl) return;
  agreed_.max_request_size =
      std::min(args.max_request_size, BackControl::kMostRequestBytes) / 8 * 8;
  agreed_.max_response_size = std::min(args.max_response_size, wire::kFirstReceiveBytes);
  const uint32_t wanted = std::min(
      {args.max_requests, BackControl::kMostRequests, self_.shared().options->max_requests});
  agreed_.max_requests = self_.requests().flow().OpenBackControl(agreed_.max_request_size, wanted);
  back_control_ = std::make_unique<BackControl>(self_.requests(), self_.loop(),
                                                agreed_.max_requests, agreed_.max_request_size,
                                                *self_.terms().order(), owner.terms().checksums());
}

void Channels::Unbind() {
  for (Session* channel : {read_, back_, references_}) {
    if (channel == nullptr) continue;
    channel->Abort(absl::UnavailableError(
        absl::StrCat("the session of this ", channel->channels().name(), " has ended")));
  }
  if (owner_ == nullptr) return;
  if (back_control_ != nullptr) {
    back_control_->End();
    self_.shared().callbacks->Lost(back_control_->route());
    self_.shared().lock_announcer->Unbind(back_control_->route());
  }
  Session& owner = *std::exchange(owner_, nullptr);
  owner.channels().BoundFor(use_) = nullptr;
  if (use_ == wire::ChannelUse::kReferences && !owner.connection().disconnected()) return;
  if (owner.connection().disconnected()) return owner.MaybeForget();
  owner.Abort(absl::UnavailableError(absl::StrCat("the ", name(), " of this session has ended")));
}

bool Channels::TakeReply(Receive& receive, std::span<const std::byte> message) {
  if (!back_control_->IsResponse(message)) return false;
  absl::StatusOr<absl::AnyInvocable<void()>> answered = back_control_->OnResponse(message);
  absl::Status status = answered.status();
  if (status.ok()) status = self_.requests().flow().Repost(receive);
  if (!status.ok()) {
    self_.connection().End(std::move(status));
    return true;
  }
  Report();
  (*answered)();
  return true;
}

void Channels::Report() const {
  back_control_->SendWaiting();
  if (owner_ != nullptr && owner_->pending_work() != nullptr) owner_->pending_work()->Report();
}

}  // namespace dafs::server
