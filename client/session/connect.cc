// How a session is established, and how it is disconnected. Spec: 3.1.1.1, 3.1.2.2, 3.2.6.3, 6.2.1
// to 6.2.7; WIRE 11.1, 11.3, 11.4.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "client/session/private_data.h"
#include "client/session/session.h"
#include "client/session/slots.h"
#include "runtime/log.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

// The maximum size of a channel's first request and of its response (3.2.6.3).
constexpr uint32_t kFirstMessage = wire::kFirstReceiveBytes;

PrivateData PrivateDataFor(const ClientOptions& options) {
  static std::atomic<uint32_t> sessions{0};  // a counter; relaxed order suffices
  PrivateData data;
  std::copy_n(options.client_verifier.bytes.begin(), 4,
              data.client_instance_differentiator.begin());
  uint32_t number = sessions.fetch_add(1, std::memory_order_relaxed);
  std::memcpy(data.client_session_differentiator.data(), &number, 4);
  data.channel_type = wire::kChannelOperation;
  return data;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Create(Client& client, dat::Loop& loop,
                                                         dat::Provider& provider,
                                                         const dat::Address& address,
                                                         BufferPool* pool, CallTotals& totals) {
  auto session = absl::WrapUnique(new Session(client, loop, pool, totals));
  absl::Status status = session->SetUp(provider, address);
  if (!status.ok()) {
    session->state_ = State::kDead;
    return status;
  }
  return session;
}

absl::Status Session::SetUp(dat::Provider& provider, const dat::Address& address) {
  const ClientOptions& options = client_.options();
  provider_ = &provider;
  peer_ = address;
  negotiated_.order = options.byte_order;
  since_ = last_heard_ = dat::Loop::Now();
  ASSIGN_OR_RETURN(std::unique_ptr<dat::PendingEndpoint> pending,
                   provider.Resolve(address, options.device, options.connect_timeout));
  ASSIGN_OR_RETURN(domain_, pending->NewDomain());

  const uint32_t slots = options.max_requests;
  send_bytes_ = std::max(options.max_request_size, kFirstMessage);
  receive_bytes_ = std::max(options.max_response_size, kFirstMessage);
  request_bytes_ = kFirstMessage;
  const size_t bytes = size_t{slots} * (send_bytes_ + receive_bytes_);
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("message buffers of ", bytes, " bytes: errno ", errno));
  }
  memory_ = {static_cast<std::byte*>(at), bytes};
  ASSIGN_OR_RETURN(region_, domain_->Register(memory_, dat::Access::kLocal));
  ChooseWindows();
  if (pool_ != nullptr) RETURN_IF_ERROR(pool_->Register(*domain_, windows_));

  slots_.resize(slots);
  unposted_.reserve(slots);
  free_.resize((slots + 63) / 64);
  for (size_t i = 0; i < slots; ++i) free_[i / 64] |= uint64_t{1} << (i % 64);

  dat::EndpointOptions sizes;
  sizes.max_receives = slots;
  sizes.max_sends = slots;
  sizes.max_segments = 1;
  // The windows of all requests, and as many again that are still being invalidated after their
  // requests ended.
  if (windows_) {
    sizes.max_windows =
        static_cast<uint32_t>(2 * slots * Exposure::kMostOfRequest + Exposure::kMostOfBatches);
  }
  ASSIGN_OR_RETURN(endpoint_, pending->CreateEndpoint(*domain_, sizes));
  // One receive for each possible response: a request is sent only if a receive is posted for its
  // response.
  for (size_t i = 0; i < slots; ++i) RETURN_IF_ERROR(PostReceive(i));
  private_data_ = PrivateDataFor(options);
  private_data_.invalidation = windows_;
  RETURN_IF_ERROR(endpoint_->Connect(EncodePrivateData(private_data_, options.byte_order)));
  private_data_.invalidation = false;  // applies to this channel only
  if (windows_) pool_->exposure().UseWindows(endpoint_.get());
  loop_.Add(this);
  return absl::OkStatus();
}

void Session::ChooseWindows() {
  const ClientOptions& options = client_.options();
  windows_ = false;
  if (pool_ == nullptr) return;
  absl::Status can = domain_->windows();
  if (options.windows == Windows::kOff) {
    no_windows_ = "no memory windows: not wanted";
  } else if (options.rdma_read_channel || options.back_control_channel) {
    // A window is valid on one connection only. The server writes data of asynchronous batches over
    // another one.
    no_windows_ = "no memory windows: the server also accesses memory over other channels";
  } else if (pool_->user_memory().has_long_lists()) {
    no_windows_ = absl::StrCat("no memory windows: requests that name more than ",
                               Exposure::kMostOfRequest, " segments are to be sent again");
  } else if (can.ok() || (absl::IsFailedPrecondition(can) && options.windows == Windows::kOn)) {
    windows_ = true;
  } else {
    no_windows_ = absl::StrCat("no memory windows: ", can.message());
  }
}

dat::Task<absl::Status> Session::Establish(absl::Time deadline) {
  absl::Status status;
  if (state_ == State::kConnecting) {
    dat::Pending<bool> connected;
    connecting_ = &connected;
    dat::Loop::TimerId timer = loop_.RunAfter(deadline - dat::Loop::Now(), [this] {
      Fail(absl::UnavailableError("no connection in time"));
    });
    bool up = co_await connected;
    loop_.Cancel(timer);
    if (up) {
      dat::Task<absl::Status> task = Negotiate(deadline);
      status = co_await task;
      if (status.ok()) {
        dat::Task<absl::Status> asking = AskForExtensions(deadline);
        status = co_await asking;
      }
      if (status.ok() && negotiated_.rdma_read_channel) {
        dat::Task<void> binding = BindReadChannel(deadline);
        co_await binding;
      }
      if (status.ok() && negotiated_.back_control_channel && state_ == State::kConnecting) {
        dat::Task<void> binding = BindBackControl(deadline);
        co_await binding;
      }
    } else {
      status = why_;
    }
  } else {
    status = why_;
  }
  if (status.ok() && state_ != State::kConnecting) status = why_;
  if (status.ok()) {
    state_ = State::kUp;
    since_ = dat::Loop::Now();
    co_return status;
  }
  status = wire::Prefixed(status, peer_.ToString() + ": ");
  Kill(status);
  co_return status;
}

template <class Args>
void Session::Propose(Args& args) const {
  const ClientOptions& options = client_.options();
  args.use_checksums = options.checksums;
  args.use_response_cache = options.response_cache;
  args.use_rdma_read_channel = options.rdma_read_channel;
  args.use_back_control_channel = options.back_control_channel;
  args.max_credentials = options.max_credentials;
  args.max_request_size = options.max_request_size;
  args.max_response_size = options.max_response_size;
  args.max_requests = options.max_requests;
  args.client_id_string = options.client_id_string;
  args.client_verifier = options.client_verifier;
}

// Stores the values that the server chose, after checking them against the rules of WIRE 11.3.
template <class Res>
absl::Status Session::Agree(const Res& res) {
  const ClientOptions& options = client_.options();
  auto size_is_good = [](uint32_t size, uint32_t asked) {
    return size % 8 == 0 && size >= 1024 && size <= asked;
  };
  if (res.session_id.is_zero() || res.client_id.is_zero() ||
      res.use_checksums != options.checksums || res.max_requests < 1 || res.max_requests > 65535 ||
      !size_is_good(res.max_request_size, options.max_request_size) ||
      !size_is_good(res.max_response_size, options.max_response_size)) {
    return absl::DataLossError(
        absl::StrCat("the server breaks the rules of negotiation: checksums ", res.use_checksums,
                     ", max_requests ", res.max_requests, ", max_request_size ",
                     res.max_request_size, ", max_response_size ", res.max_response_size));
  }
  negotiated_.session_id = res.session_id;
  negotiated_.client_id = res.client_id;
  negotiated_.checksums = checksums_due_ = res.use_checksums;
  negotiated_.response_cache = res.use_response_cache;
  negotiated_.rdma_read_channel = res.use_rdma_read_channel;
  negotiated_.back_control_channel = res.use_back_control_channel && options.back_control_channel;
  negotiated_.max_credentials = res.max_credentials;
  negotiated_.max_request_size = res.max_request_size;
  negotiated_.max_response_size = res.max_response_size;
  negotiated_.max_requests = res.max_requests;
  nreq_ = target_nreq_ = res.max_requests;
  request_bytes_ = res.max_request_size;
  return absl::OkStatus();
}

absl::Status Session::Refused(wire::Proc proc, wire::DafsStatus status) const {
  if (status == wire::DafsStatus::kIllegalProt) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the server speaks protocol version ", peer_version_, ", not ", wire::kProtocolVersion));
  }
  absl::Status refused = wire::StatusFromDafs(status, wire::Name(proc));
  if (status == wire::DafsStatus::kNotAuthenticated || status == wire::DafsStatus::kNotAuthorized) {
    return absl::UnauthenticatedError(refused.message());
  }
  return refused;
}

Channel::Options Session::ChannelOptions() const {
  Channel::Options options;
  options.address = peer_;
  options.device = client_.options().device;
  options.connect_timeout = client_.options().connect_timeout;
  options.private_data = private_data_;
  options.order = negotiated_.order;
  return options;
}

wire::ConnectBindArgs Session::BindArgs() const {
  wire::ConnectBindArgs args;
  args.session_id = negotiated_.session_id;
  args.auth_req.auth_type = negotiated_.auth;
  return args;
}

// Spec gap: 3.1.2.3.4 requires the client to make the channel. If that fails, data is written
// inline, which needs no channel.
dat::Task<void> Session::BindReadChannel(absl::Time deadline) {
  if (windows_) {
    // A window is valid on one connection only, and the buffers are accessible only through
    // windows.
    LogNotice(absl::StrCat(client_.options().server_name,
                           ": the server asks for an RDMA-read Channel, which memory windows "
                           "exclude: data is written inline, which is slower; mount with "
                           "windows=off to have the channel"));
    co_return;
  }
  auto channel = Channel::Connect(loop_, *provider_, *domain_, ChannelOptions());
  absl::Status status = channel.status();
  if (status.ok()) {
    read_channel_ = *std::move(channel);
    dat::Task<absl::Status> binding = read_channel_->Bind(BindArgs(), deadline);
    status = co_await binding;
  }
  if (state_ != State::kConnecting) co_return;  // died meanwhile
  if (!status.ok()) {
    LogWarning(absl::StrCat(client_.options().server_name, ": no RDMA-read Channel: ",
                            status.message(), "; data is written inline, which is slower"));
    read_channel_.reset();
    co_return;
  }
  read_channel_bound_ = true;
  read_channel_->OnLost([this](const absl::Status& why) {
    Fail(absl::UnavailableError(absl::StrCat("RDMA-read Channel: ", why.message())));
  });
}

// 3.1.2.3.3. If binding fails, the server answers a batch when all of it is done.
dat::Task<void> Session::BindBackControl(absl::Time deadline) {
  auto channel =
      BackControl::Connect(loop_, *provider_, *domain_, ChannelOptions(), negotiated_.checksums);
  absl::Status status = channel.status();
  if (status.ok()) {
    back_control_ = *std::move(channel);
    wire::ConnectBindArgs args = BindArgs();
    BackControl::Propose(args);
    dat::Task<absl::Status> binding = back_control_->Bind(args, deadline);
    status = co_await binding;
  }
  if (state_ != State::kConnecting) co_return;  // died meanwhile
  if (!status.ok()) {
    LogWarning(absl::StrCat(client_.options().server_name, ": no Back-control Channel: ",
                            status.message(), "; each batch is answered when all of it is done"));
    back_control_.reset();
    co_return;
  }
  back_control_bound_ = true;
  back_control_->OnLost([this](const absl::Status& why) {
    Fail(absl::UnavailableError(absl::StrCat("Back-control Channel: ", why.message())));
  });
}

// One exchange if the server accepts the client's first method; otherwise ConnectThenAuthenticate.
dat::Task<absl::Status> Session::Negotiate(absl::Time deadline) {
  const Auth wish = client_.options().auth;
  Call<wire::ClientConnectAuthArgs> connect;
  Propose(connect.args);
  connect.args.auth_req.auth_type =
      wish == Auth::kDefault ? wire::AuthType::kDefault : wire::AuthType::kNone;
  CallBase* const chain[] = {&connect};
  dat::Task<absl::Status> task = Run(wire::CredHandle(), chain, deadline);
  CO_RETURN_IF_ERROR(co_await task);
  if (connect.status == wire::DafsStatus::kOk) {
    negotiated_.auth = connect.args.auth_req.auth_type;
    negotiated_.trusted = connect.res.trusted;
    co_return Agree(connect.res);
  }
  const bool other_method = connect.status == wire::DafsStatus::kNotAuthenticated ||
                            connect.status == wire::DafsStatus::kNotAuthorized ||
                            connect.status == wire::DafsStatus::kNotSupp;
  if (!other_method || (wish != Auth::kAuto && connect.status != wire::DafsStatus::kNotSupp)) {
    co_return Refused(connect.proc(), connect.status);
  }
  dat::Task<absl::Status> long_way = ConnectThenAuthenticate(deadline);
  absl::Status status = co_await long_way;
  co_return status;
}

// Sends CLIENT_CONNECT, SECINFO to learn the methods on offer, and CLIENT_AUTH with the first one
// that the client supports. A failed CLIENT_CONNECT_AUTH leaves no session, so the channel accepts
// another connect request.
dat::Task<absl::Status> Session::ConnectThenAuthenticate(absl::Time deadline) {
  Call<wire::ClientConnectArgs> connect;
  Propose(connect.args);
  CallBase* const first[] = {&connect};
  dat::Task<absl::Status> connecting = Run(wire::CredHandle(), first, deadline);
  CO_RETURN_IF_ERROR(co_await connecting);
  if (!connect.ok()) co_return Refused(connect.proc(), connect.status);
  CO_RETURN_IF_ERROR(Agree(connect.res));

  Call<wire::SecinfoArgs> secinfo;
  CallBase* const second[] = {&secinfo};
  dat::Task<absl::Status> asking = Run(wire::CredHandle(), second, deadline);
  CO_RETURN_IF_ERROR(co_await asking);
  const Auth wish = client_.options().auth;
  if (!secinfo.ok()) {  // the server does not list methods: try both
    secinfo.res.secinfo.resize(2);
    secinfo.res.secinfo[1].auth_type = wire::AuthType::kDefault;
  }
  std::string offered;
  std::vector<wire::AuthType> methods;
  for (const wire::SecInfo& info : secinfo.res.secinfo) {
    absl::StrAppend(&offered, offered.empty() ? "" : ", ", static_cast<uint32_t>(info.auth_type));
    bool none = info.auth_type == wire::AuthType::kNone && wish != Auth::kDefault;
    bool by_default = info.auth_type == wire::AuthType::kDefault && wish != Auth::kNone;
    if (none || by_default) methods.push_back(info.auth_type);
  }
  absl::Status refused = absl::UnauthenticatedError(absl::StrCat(
      "the server offers authentication methods [", offered, "], none supported by this client"));
  for (wire::AuthType method : methods) {
    Call<wire::ClientAuthArgs> auth;
    auth.args.auth_req.auth_type = method;
    CallBase* const third[] = {&auth};
    dat::Task<absl::Status> authenticating = Run(wire::CredHandle(), third, deadline);
    CO_RETURN_IF_ERROR(co_await authenticating);
    if (auth.ok()) {
      negotiated_.auth = method;
      negotiated_.trusted = auth.res.trusted;
      co_return absl::OkStatus();
    }
    refused = Refused(auth.proc(), auth.status);
  }
  co_return refused;
}

// Negotiates extensions of the draft (R15). Each session does so before it sends a name, since the
// server keeps the result only for the session. If the server does not know the procedure, the
// client follows the draft alone.
dat::Task<absl::Status> Session::AskForExtensions(absl::Time deadline) {
  Call<wire::ExtensionsArgs> ask;
  ask.args.wanted = wire::kExtensionByteNames | wire::kExtensionReadKeepsAtime;
  if (client_.options().keep_atime) ask.args.wanted |= wire::kExtensionKeepAtime;
  CallBase* const chain[] = {&ask};
  dat::Task<absl::Status> task = Run(wire::CredHandle(), chain, deadline);
  CO_RETURN_IF_ERROR(co_await task);
  const uint64_t granted = ask.ok() ? ask.res.granted & ask.args.wanted : 0;
  client_.limits().extensions.store(granted, std::memory_order_relaxed);
  co_return absl::OkStatus();
}

dat::Task<void> Session::Disconnect(absl::Time deadline) {
  lost_ = nullptr;
  if (state_ != State::kUp) co_return;
  Call<wire::DisconnectArgs> disconnect;
  CallBase* const chain[] = {&disconnect};
  dat::Task<absl::Status> task = Run(wire::CredHandle(), chain, deadline);
  absl::Status status = co_await task;
  if (!status.ok() || state_ != State::kUp) co_return;
  // Spec 6.2.6: the client sends nothing more, and closes.
  state_ = State::kDying;
  why_ = absl::CancelledError("disconnected");
  dat::Pending<bool> closed;
  closing_ = &closed;
  endpoint_->Disconnect();
  loop_.Touch(this);
  dat::Loop::TimerId timer = loop_.RunAfter(deadline - dat::Loop::Now(),
                                            [this] { Kill(absl::CancelledError("disconnected")); });
  co_await closed;
  loop_.Cancel(timer);
}

}  // namespace dafs::client
