#include "client/session/optional_channels.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"

namespace dafs::client {

void OptionalChannels::Use(dat::Provider& provider, dat::Domain& domain,
                           const PrivateData& private_data) {
  provider_ = &provider;
  domain_ = &domain;
  private_data_ = private_data;
}

Task<void> OptionalChannels::Bind(bool by_windows, absl::Time deadline) {
  if (context_.negotiated.rdma_read_channel && by_windows) {
    // A window is valid on one connection only, and the buffers are accessible only through
    // windows.
    LogNotice(absl::StrCat(context_.client.options().server_name,
                           ": the server asks for an RDMA-read Channel, which memory windows "
                           "exclude: data is written inline, which is slower; mount with "
                           "windows=off to have the channel"));
  } else if (context_.negotiated.rdma_read_channel) {
    Task<void> binding = BindReadChannel(deadline);
    co_await binding;
  }
  if (context_.negotiated.back_control_channel && connecting()) {
    Task<void> binding = BindBackControl(deadline);
    co_await binding;
  }
}

// Spec gap: 3.1.2.3.4 requires the client to make the channel. If that fails, data is written
// inline, which needs no channel.
Task<void> OptionalChannels::BindReadChannel(absl::Time deadline) {
  auto channel = Channel::Connect(context_.loop, *provider_, *domain_, ChannelOptions());
  absl::Status status = channel.status();
  if (status.ok()) {
    read_channel_ = *std::move(channel);
    Task<absl::Status> binding = read_channel_->Bind(BindArgs(), deadline);
    status = co_await binding;
  }
  if (!connecting()) co_return;  // died meanwhile
  if (!status.ok()) {
    LogWarning(absl::StrCat(context_.client.options().server_name, ": no RDMA-read Channel: ",
                            status.message(), "; data is written inline, which is slower"));
    read_channel_.reset();
    co_return;
  }
  read_channel_bound_ = true;
  read_channel_->OnLost([this](const absl::Status& why) {
    context_.link.Fail(absl::UnavailableError(absl::StrCat("RDMA-read Channel: ", why.message())));
  });
}

// 3.1.2.3.3. If binding fails, the server answers a batch when all of it is done, and announces no
// changes.
Task<void> OptionalChannels::BindBackControl(absl::Time deadline) {
  auto channel = BackControl::Connect(context_.loop, *provider_, *domain_, ChannelOptions(),
                                      context_.negotiated.checksums);
  absl::Status status = channel.status();
  if (status.ok()) {
    back_control_ = *std::move(channel);
    wire::ConnectBindArgs args = BindArgs();
    BackControl::Propose(args);
    Task<absl::Status> binding = back_control_->Bind(args, deadline);
    status = co_await binding;
  }
  if (!connecting()) co_return;  // died meanwhile
  if (!status.ok()) {
    LogWarning(absl::StrCat(
        context_.client.options().server_name, ": no Back-control Channel: ", status.message(),
        context_.callbacks ? "; the server cannot announce changes of other clients"
                           : "; each batch is answered when all of it is done"));
    back_control_.reset();
    co_return;
  }
  back_control_bound_ = true;
  back_control_->OnLost([this](const absl::Status& why) {
    context_.link.Fail(
        absl::UnavailableError(absl::StrCat("Back-control Channel: ", why.message())));
  });
}

Task<absl::Status> OptionalChannels::BindReferences(absl::Time deadline,
                                                    absl::AnyInvocable<void()> lost) {
  if (context_.link.state() != Link::State::kUp || is_reference_bound_) {
    co_return absl::FailedPreconditionError("no session, or it has a reference channel");
  }
  auto made = ReferenceChannel::Connect(context_.loop, *provider_, *domain_, ChannelOptions());
  if (!made.ok()) co_return made.status();
  references_ = *std::move(made);
  Task<absl::Status> binding = references_->Bind(BindArgs(), deadline);
  const absl::Status status = co_await binding;
  if (context_.link.state() != Link::State::kUp) {
    co_return absl::UnavailableError("the session has ended");
  }
  if (!status.ok()) {
    references_.reset();
    co_return status;
  }
  is_reference_bound_ = true;
  references_->OnLost([this, lost = std::move(lost)](const absl::Status& why) mutable {
    LogInfo(absl::StrCat(context_.client.options().server_name, ": reference channel lost: ",
                         why.message(), "; data is read by requests until there is a new one"));
    is_reference_bound_ = false;
    lost();
  });
  co_return absl::OkStatus();
}

Channel::Options OptionalChannels::ChannelOptions() const {
  Channel::Options options;
  options.address = context_.peer;
  options.device = context_.client.options().device;
  options.connect_timeout = context_.client.options().connect_timeout;
  options.private_data = private_data_;
  options.order = context_.negotiated.order;
  if (Login::IsUsedFor(context_.negotiated.auth)) options.login = &login_;
  return options;
}

wire::ConnectBindArgs OptionalChannels::BindArgs() const {
  wire::ConnectBindArgs args;
  args.session_id = context_.negotiated.session_id;
  args.auth_req.auth_type = context_.negotiated.auth;
  return args;
}

void OptionalChannels::End(const absl::Status& why) {
  read_channel_bound_ = back_control_bound_ = is_reference_bound_ = false;
  std::unique_ptr<ReferenceChannel> references = std::move(references_);
  if (references != nullptr) references->Kill(why);
  std::unique_ptr<Channel> read_channel = std::move(read_channel_);
  std::unique_ptr<BackControl> back_control = std::move(back_control_);
  if (read_channel != nullptr) read_channel->Kill(why);
  if (back_control != nullptr) back_control->Kill(why);
}

void OptionalChannels::OnDirective(BackControlHandler* handler) {
  if (back_control_ != nullptr) back_control_->OnDirective(handler);
}

void OptionalChannels::Describe(std::string& transport) const {
  if (read_channel_bound_) transport += ", RDMA-read Channel";
  if (back_control_bound_) transport += ", Back-control Channel";
}

}  // namespace dafs::client
