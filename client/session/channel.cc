#include "client/session/channel.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"
#include "wire/codec/codec.h"
#include "wire/protocol/status.h"

namespace dafs::client {

namespace {

uint32_t TypeOf(wire::ChannelUse use) {
  switch (use) {
    case wire::ChannelUse::kRdmaRead:
      return wire::kChannelRdmaRead;
    case wire::ChannelUse::kBackControl:
      return wire::kChannelBackControl;
    case wire::ChannelUse::kReferences:
      break;
  }
  return wire::kChannelReferences;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Channel>> Channel::Connect(Loop& loop, dat::Provider& provider,
                                                          dat::Domain& domain,
                                                          const Options& options) {
  auto channel = absl::WrapUnique(new Channel(loop, Kind()));
  RETURN_IF_ERROR(channel->SetUp(provider, domain, options));
  return channel;
}

absl::Status Channel::SetUp(dat::Provider& provider, dat::Domain& domain, const Options& options) {
  order_ = options.order;
  login_ = options.login;
  ASSIGN_OR_RETURN(std::unique_ptr<dat::PendingEndpoint> pending,
                   provider.Resolve(options.address, options.device, options.connect_timeout));
  if (!pending->Fits(domain)) {
    return absl::UnavailableError("its route uses another device than the session's");
  }
  memory_.resize(size_t{kMessage} * (kind_.sends + kind_.receives));
  ASSIGN_OR_RETURN(region_, domain.Register(memory_, dat::Access::kLocal));
  dat::EndpointOptions sizes;
  sizes.max_receives = kind_.receives;
  sizes.max_sends = kind_.sends + kind_.reads;
  sizes.max_segments = 1;
  ASSIGN_OR_RETURN(endpoint_, pending->CreateEndpoint(domain, sizes));
  for (uint32_t i = 0; i < kind_.receives; ++i) RETURN_IF_ERROR(PostReceive(i));
  PrivateData data = options.private_data;
  data.channel_type = TypeOf(kind_.use);
  const auto private_data = EncodePrivateData(data, order_);
  RETURN_IF_ERROR(endpoint_->Connect(private_data));
  loop_.Add(this);
  return absl::OkStatus();
}

Channel::~Channel() {
  loop_.Remove(this);
  endpoint_.reset();
}

void Channel::Kill(absl::Status why) {
  lost_ = nullptr;
  ended_ = true;
  why_ = std::move(why);
  loop_.Remove(this);
  endpoint_.reset();
  if (step_ != nullptr) std::exchange(step_, nullptr)->Set(false);
}

void Channel::Fail(absl::Status why) {
  if (ended_) return;
  endpoint_->Abort(std::move(why));
  loop_.RequestPoll(this);
}

// Handles one completion for each call and accesses no member after it resumed a waiter or called a
// function: that may destroy the channel.
bool Channel::Poll() {
  dat::Completion completion;
  if (ended_ || endpoint_->Poll({&completion, 1}) == 0) return false;
  switch (completion.event) {
    case dat::Event::kConnected:
      if (step_ != nullptr) std::exchange(step_, nullptr)->Set(true);
      return true;
    case dat::Event::kReceive:
      if (!completion.status.ok()) return true;
      if (bound_) {
        OnMessage(completion.cookie, completion.size_bytes);
        return true;
      }
      answer_index_ = completion.cookie;
      answer_bytes_ = completion.size_bytes;
      if (step_ != nullptr) std::exchange(step_, nullptr)->Set(true);
      return true;
    case dat::Event::kSend:
      if (bound_ && completion.status.ok()) OnSent(completion.cookie);
      return true;
    case dat::Event::kDisconnected:
      ended_ = true;
      why_ = completion.status.ok() ? absl::UnavailableError("the server closed it")
                                    : completion.status;
      if (step_ != nullptr) {
        std::exchange(step_, nullptr)->Set(false);
      } else {
        auto lost = std::exchange(lost_, nullptr);
        const absl::Status why = why_;
        OnEnded();
        if (lost) lost(why);
      }
      return true;
    case dat::Event::kRdmaRead:
      OnRead(completion.cookie, completion.status.ok());
      return true;
    default:
      return true;
  }
}

void Channel::OnMessage(uint64_t, uint32_t) {
  Fail(absl::DataLossError("a message on the RDMA-read Channel"));
}

// Waits for the connection, or for the response.
Task<absl::Status> Channel::Step(absl::Time deadline) {
  if (ended_) co_return why_;
  Pending<bool> step;
  step_ = &step;
  const Loop::TimerId timer = loop_.RunAfter(deadline - Loop::Now(), [this] {
    endpoint_->Abort(absl::DeadlineExceededError("no answer in time"));
    loop_.RequestPoll(this);
  });
  const bool went_on = co_await step;
  loop_.Cancel(timer);
  co_return went_on ? absl::OkStatus() : why_;
}

std::span<std::byte> Channel::SendBuffer(uint64_t index) {
  return std::span(memory_).subspan(index * kMessage, kMessage);
}

std::span<const std::byte> Channel::ReceiveBuffer(uint64_t index, uint32_t size_bytes) {
  return std::span(memory_).subspan((kind_.sends + index) * kMessage, size_bytes);
}

absl::Status Channel::PostReceive(uint64_t index) {
  std::byte* at = memory_.data() + (kind_.sends + index) * kMessage;
  return endpoint_->PostReceive(index, dat::Segment{at, kMessage, region_.get()});
}

absl::Status Channel::Send(uint64_t index, size_t size_bytes) {
  const dat::Segment segment{SendBuffer(index).data(), static_cast<uint32_t>(size_bytes),
                             region_.get()};
  RETURN_IF_ERROR(endpoint_->PostSend(index, {&segment, 1}, {}));
  loop_.RequestPoll(this);
  return absl::OkStatus();
}

void Channel::PostRead(uint64_t cookie, dat::Segment into, dat::RemoteBuffer from) {
  const absl::Status posted = endpoint_->PostRdmaRead(cookie, {&into, 1}, from);
  if (!posted.ok()) return Fail(posted);
  loop_.RequestPoll(this);
}

absl::Status Channel::Request(const wire::ConnectBindArgs& args) {
  wire::RequestHeader header;
  header.seq_number = 1;
  ASSIGN_OR_RETURN(size_t bytes, wire::EncodeRequest(header, args, order_, SendBuffer(0), {}));
  return Send(0, bytes);
}

absl::Status Channel::Answer(const wire::ConnectBindArgs& args, std::string* token) {
  const std::span<const std::byte> message = ReceiveBuffer(answer_index_, answer_bytes_);
  ASSIGN_OR_RETURN(auto decoded, wire::DecodeResponseHeader(message, order_));
  if (decoded.header.status != wire::DafsStatus::kOk) {
    return wire::StatusFromDafs(decoded.header.status, wire::Name(args.kProc));
  }
  wire::ConnectBindRes res;
  RETURN_IF_ERROR(wire::DecodeRes(message, order_, decoded.header.status, res));
  RETURN_IF_ERROR(Agree(args, res));
  if (token != nullptr) *token = std::move(res.auth_res.gss_token);
  return absl::OkStatus();
}

Task<absl::Status> Channel::Bind(wire::ConnectBindArgs args, absl::Time deadline) {
  args.channel_use = kind_.use;
  Task<absl::Status> connecting = Step(deadline);
  absl::Status status = co_await connecting;
  std::shared_ptr<Login::Dialogue> dialogue;
  if (status.ok() && login_ != nullptr) {
    const std::shared_ptr<const dat::TlsPeer> tls = endpoint_->tls_peer();
    dialogue = login_->Begin(tls == nullptr ? "" : tls->channel_binding);
    Task<absl::Status> making = login_->Step(dialogue, deadline);
    status = co_await making;
    if (status.ok()) Login::Put(*dialogue, args.auth_req);
  }
  if (status.ok()) status = Request(args);
  if (!status.ok()) co_return status;
  Task<absl::Status> answering = Step(deadline);
  status = co_await answering;
  if (status.ok()) status = Answer(args, dialogue == nullptr ? nullptr : &dialogue->token);
  bound_ = status.ok();  // the server may send directives from now on
  if (status.ok() && dialogue != nullptr) {
    Task<absl::Status> taking = login_->Step(dialogue, deadline);
    status = co_await taking;
    if (!status.ok()) co_return status;  // the session may have ended, and this with it
    if (ended_) co_return why_;
    if (*dialogue->progress != auth::Exchange::Progress::kDone) {
      co_return absl::UnauthenticatedError("Kerberos: the server did not authenticate itself");
    }
  }
  co_return status;
}

}  // namespace dafs::client
