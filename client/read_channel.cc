#include "client/read_channel.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "wire/codec.h"
#include "wire/status.h"
#include "wire/status_macros.h"

namespace dafs::client {
namespace {

// The first exchange of a channel has room for this much each way (3.2.6.3).
constexpr uint32_t kMessage = wire::kFirstReceiveBytes;

}  // namespace

absl::StatusOr<std::unique_ptr<ReadChannel>> ReadChannel::Connect(dat::Loop& loop,
                                                                  dat::Provider& provider,
                                                                  dat::Domain& domain,
                                                                  const Options& options) {
  auto channel = absl::WrapUnique(new ReadChannel(loop));
  RETURN_IF_ERROR(channel->SetUp(provider, domain, options));
  return channel;
}

absl::Status ReadChannel::SetUp(dat::Provider& provider, dat::Domain& domain,
                                const Options& options) {
  order_ = options.order;
  ASSIGN_OR_RETURN(std::unique_ptr<dat::PendingEndpoint> pending,
                   provider.Resolve(options.address, options.device, options.connect_timeout));
  if (!pending->Fits(domain)) {
    return absl::UnavailableError("its route leads over another device than the session's");
  }
  memory_.resize(2 * size_t{kMessage});
  ASSIGN_OR_RETURN(region_, domain.Register(memory_, dat::Access::kLocal));
  dat::EndpointOptions sizes;
  sizes.max_receives = 1;
  sizes.max_sends = 1;
  sizes.max_segments = 1;
  ASSIGN_OR_RETURN(endpoint_, pending->CreateEndpoint(domain, sizes));
  RETURN_IF_ERROR(
      endpoint_->PostReceive(0, dat::Segment{memory_.data() + kMessage, kMessage, region_.get()}));
  PrivateData data = options.private_data;
  data.channel_type = wire::kChannelRdmaRead;
  const auto private_data = EncodePrivateData(data, order_);
  RETURN_IF_ERROR(endpoint_->Connect(private_data));
  loop_.Add(this);
  return absl::OkStatus();
}

ReadChannel::~ReadChannel() {
  loop_.Remove(this);
  endpoint_.reset();
}

void ReadChannel::Kill(absl::Status why) {
  lost_ = nullptr;
  ended_ = true;
  why_ = std::move(why);
  loop_.Remove(this);
  endpoint_.reset();
  if (step_ != nullptr) std::exchange(step_, nullptr)->Set(false);
}

// One at a time, and nothing of ours behind what it resumes: that may destroy the channel.
bool ReadChannel::Poll() {
  dat::Completion completion;
  if (ended_ || endpoint_->Poll({&completion, 1}) == 0) return false;
  switch (completion.event) {
    case dat::Event::kConnected:
      if (step_ != nullptr) std::exchange(step_, nullptr)->Set(true);
      return true;
    case dat::Event::kReceive:
      if (!completion.status.ok()) return true;
      answer_bytes_ = completion.size_bytes;
      if (step_ != nullptr) std::exchange(step_, nullptr)->Set(true);
      return true;
    case dat::Event::kDisconnected:
      ended_ = true;
      why_ = completion.status.ok() ? absl::UnavailableError("the server closed it")
                                    : completion.status;
      if (step_ != nullptr) {
        std::exchange(step_, nullptr)->Set(false);
      } else if (lost_) {
        auto lost = std::exchange(lost_, nullptr);
        lost(why_);
      }
      return true;
    default:
      return true;
  }
}

// Waits for the connection, or for the answer.
dat::Task<absl::Status> ReadChannel::Step(absl::Time deadline) {
  if (ended_) co_return why_;
  dat::Pending<bool> step;
  step_ = &step;
  const dat::Loop::TimerId timer = loop_.RunAfter(deadline - dat::Loop::Now(), [this] {
    endpoint_->Abort(absl::DeadlineExceededError("no answer in time"));
    loop_.Touch(this);
  });
  const bool went_on = co_await step;
  loop_.Cancel(timer);
  co_return went_on ? absl::OkStatus() : why_;
}

absl::Status ReadChannel::Request(const wire::ConnectBindArgs& args) {
  wire::RequestHeader header;
  header.seq_number = 1;
  ASSIGN_OR_RETURN(size_t bytes, wire::EncodeRequest(header, args, order_,
                                                     std::span(memory_).first(kMessage), {}));
  const dat::Segment segment{memory_.data(), static_cast<uint32_t>(bytes), region_.get()};
  RETURN_IF_ERROR(endpoint_->PostSend(0, {&segment, 1}, {}));
  loop_.Touch(this);
  return absl::OkStatus();
}

absl::Status ReadChannel::Answer(const wire::ConnectBindArgs& args) const {
  const std::span<const std::byte> message = std::span(memory_).subspan(kMessage, answer_bytes_);
  ASSIGN_OR_RETURN(auto decoded, wire::DecodeResponseHeader(message, order_));
  if (decoded.header.status != wire::DafsStatus::kOk) {
    return wire::StatusFromDafs(decoded.header.status, wire::Name(args.kProc));
  }
  wire::ConnectBindRes res;
  return wire::DecodeRes(message, order_, decoded.header.status, res);
}

dat::Task<absl::Status> ReadChannel::Bind(wire::ConnectBindArgs args, absl::Time deadline) {
  args.channel_use = wire::ChannelUse::kRdmaRead;
  dat::Task<absl::Status> connecting = Step(deadline);
  absl::Status status = co_await connecting;
  if (status.ok()) status = Request(args);
  if (!status.ok()) co_return status;
  dat::Task<absl::Status> answering = Step(deadline);
  status = co_await answering;
  if (status.ok()) status = Answer(args);
  co_return status;
}

}  // namespace dafs::client
