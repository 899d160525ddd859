#include "client/session/session.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/session/negotiation.h"
#include "client/session/private_data.h"
#include "runtime/status_macros.h"
#include "wire/protocol/status.h"

namespace dafs::client {
namespace {

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

// With several paths the next one is tried soon.
absl::Duration TimeToConnect(Client& client) {
  const absl::Duration most = client.options().connect_timeout;
  return client.paths().several() ? std::min(most, kPathTimeout) : most;
}

}  // namespace

Session::Session(Client& client, Loop& loop, const dat::Address& peer, BufferPool* pool,
                 wire::CallTotals& totals, bool callbacks)
    : context_{client, loop, pool, totals, peer, callbacks, Link(loop, *this)},
      exchanger_(context_),
      login_(context_, exchanger_),
      channels_(context_, login_),
      since_(Loop::Now()) {
  context_.negotiated.order = client.options().byte_order;
}

Session::~Session() {
  Kill(absl::CancelledError("session closed"));
  if (context_.pool != nullptr && domain_ != nullptr) context_.pool->Deregister();
  context_.link.Destroy();  // before the buffers, and these before the domain
}

// ---- The beginning ---------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Session>> Session::Create(Client& client, Loop& loop,
                                                         dat::Provider& provider,
                                                         const dat::Address& address,
                                                         BufferPool* pool, wire::CallTotals& totals,
                                                         bool callbacks) {
  auto session = absl::WrapUnique(new Session(client, loop, address, pool, totals, callbacks));
  absl::Status status = session->SetUp(provider);
  if (!status.ok()) {
    session->context_.link.SetDead(status);
    return status;
  }
  return session;
}

absl::Status Session::SetUp(dat::Provider& provider) {
  const ClientOptions& options = context_.client.options();
  ASSIGN_OR_RETURN(std::unique_ptr<dat::PendingEndpoint> pending,
                   provider.Resolve(context_.peer, options.device, TimeToConnect(context_.client)));
  ASSIGN_OR_RETURN(domain_, pending->NewDomain());
  RETURN_IF_ERROR(exchanger_.MapBuffers(*domain_));
  ChooseWindows();
  if (context_.pool != nullptr) {
    RETURN_IF_ERROR(context_.pool->Register(*domain_, by_windows()));
  }
  return Connect(*pending, provider);
}

void Session::ChooseWindows() {
  const ClientOptions& options = context_.client.options();
  if (context_.pool == nullptr) return;
  absl::Status can = domain_->windows();
  if (options.windows == Windows::kOff) {
    no_windows_ = "no memory windows: not wanted";
  } else if (options.rdma_read_channel || options.back_control_channel) {
    // A window is valid on one connection only. The server writes data of asynchronous batches over
    // another one.
    no_windows_ = "no memory windows: the server also accesses memory over other channels";
  } else if (context_.pool->user_memory().has_long_lists()) {
    no_windows_ = absl::StrCat("no memory windows: requests that name more than ",
                               RemoteAccess::kMostOfRequest, " segments are to be sent again");
  } else if (can.ok() || (absl::IsFailedPrecondition(can) && options.windows == Windows::kOn)) {
    exchanger_.windows().Use();
  } else {
    no_windows_ = absl::StrCat("no memory windows: ", can.message());
  }
}

absl::Status Session::Connect(dat::PendingEndpoint& pending, dat::Provider& provider) {
  const ClientOptions& options = context_.client.options();
  const uint32_t slots = options.max_requests;
  dat::EndpointOptions sizes;
  sizes.max_receives = slots;
  sizes.max_sends = slots;
  sizes.max_segments = 1;
  // The windows of all requests, and as many again that are still being invalidated after their
  // requests ended.
  if (by_windows()) {
    sizes.max_windows = static_cast<uint32_t>(size_t{2} * slots * RemoteAccess::kMostOfRequest +
                                              RemoteAccess::kMostOfBatches);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<dat::Endpoint> endpoint,
                   pending.CreateEndpoint(*domain_, sizes));
  context_.link.Open(std::move(endpoint));
  RETURN_IF_ERROR(exchanger_.PostReceives());
  PrivateData private_data = PrivateDataFor(options);
  channels_.Use(provider, *domain_, private_data);
  private_data.invalidation = by_windows();  // applies to this channel only
  RETURN_IF_ERROR(
      context_.link.endpoint().Connect(EncodePrivateData(private_data, options.byte_order)));
  if (by_windows()) context_.pool->remote_access().UseWindows(&context_.link.endpoint());
  context_.loop.Add(this);
  return absl::OkStatus();
}

Task<absl::Status> Session::Establish(absl::Time deadline) {
  Task<absl::Status> preparing = Prepare(deadline);
  absl::Status status = co_await preparing;
  if (status.ok() && context_.link.state() != Link::State::kConnecting) status = why();
  if (status.ok()) {
    context_.link.Established();
    if (negotiated().auth == wire::AuthType::kGss) login_.Renew();
    since_ = Loop::Now();
    co_return status;
  }
  status = wire::Prefixed(status, peer().ToString() + ": ");
  Kill(status);
  co_return status;
}

Task<absl::Status> Session::Prepare(absl::Time deadline) {
  Task<absl::Status> connecting =
      context_.link.Connected(std::min(deadline, Loop::Now() + TimeToConnect(context_.client)));
  CO_RETURN_IF_ERROR(co_await connecting);
  Negotiation negotiation(context_, exchanger_, login_);
  Task<absl::Status> negotiating = negotiation.Run(deadline);
  CO_RETURN_IF_ERROR(co_await negotiating);
  Task<void> binding = channels_.Bind(by_windows(), deadline);
  co_await binding;
  co_return absl::OkStatus();
}

// ---- Work ------------------------------------------------------------------------------------

WaitHandle Session::Arm() {
  exchanger_.PostDue();
  return context_.link.endpoint().Arm();
}

bool Session::Poll() {
  if (dead()) return false;
  exchanger_.PostDue();
  const size_t count = context_.link.endpoint().Poll(completions_);
  for (size_t i = 0; i < count; ++i) {
    Handle(completions_[i]);
    if (dead()) return true;
  }
  if (count == 0) return false;
  exchanger_.UseFreeSlots();
  return true;
}

void Session::Handle(const dat::Completion& completion) {
  switch (completion.event) {
    case dat::Event::kConnected:
      return context_.link.OnConnected();
    case dat::Event::kDisconnected:
      return Die(completion.status);
    default:
      return exchanger_.Handle(completion);
  }
}

void Session::Fill(SessionReport& report) const {
  report.up = alive();
  if (context_.link.has_endpoint()) report.transport = context_.link.endpoint().description();
  channels_.Describe(report.transport);
  report.memory_by_windows = by_windows();
  report.windows_bound = by_windows() ? context_.pool->remote_access().count() : 0;
  report.windows_ended = exchanger_.windows().ended();
  if (context_.pool != nullptr) report.memory = by_windows() ? "memory windows" : no_windows_;
  report.peer = peer().ToString();
  report.age = Loop::Now() - since_;
  const Negotiated& agreed = negotiated();
  if (agreed.identity.has_value()) {
    report.server_id = wire::HexOf(agreed.identity->server_id);
    report.instance = agreed.identity->instance;
    report.cluster_id = absl::CHexEscape(agreed.identity->cluster_id);
  }
  report.session_id = wire::HexOf(agreed.session_id);
  report.trusted = agreed.trusted;
  report.checksums = agreed.checksums;
  report.big_endian = agreed.order == wire::ByteOrder::kBig;
  report.max_request_size = agreed.max_request_size;
  report.max_response_size = agreed.max_response_size;
  report.max_requests = agreed.max_requests;
  report.max_credentials = agreed.max_credentials;
  exchanger_.Fill(report);
}

// ---- The end ---------------------------------------------------------------------------------

Task<void> Session::Disconnect(absl::Time deadline) {
  lost_ = nullptr;
  if (!alive()) co_return;
  Call<wire::DisconnectArgs> disconnect;
  CallBase* const chain[] = {&disconnect};
  Task<absl::Status> task = Run(wire::CredHandle(), chain, deadline);
  absl::Status status = co_await task;
  if (!status.ok() || !alive()) co_return;
  // Spec 6.2.6: the client sends nothing more, and closes.
  context_.link.Close(absl::CancelledError("disconnected"));
  const Loop::TimerId timer = context_.loop.RunAfter(
      deadline - Loop::Now(), [this] { Kill(absl::CancelledError("disconnected")); });
  Task<void> closing = context_.link.Closed();
  co_await closing;
  context_.loop.Cancel(timer);
}

// The connection has ended: the server cannot access any buffer.
void Session::Die(const absl::Status& why) {
  context_.link.OnDisconnected(why);
  StopUse();
  ResumeAll();
  if (lost_) std::exchange(lost_, nullptr)();
}

void Session::Kill(absl::Status why) {
  if (dead()) return;
  lost_ = nullptr;
  context_.link.SetDead(std::move(why));
  StopUse();
  context_.link.Destroy();
  ResumeAll();
}

void Session::StopUse() {
  exchanger_.Stop();
  login_.Stop();
  context_.loop.Remove(this);
  if (by_windows()) context_.pool->remote_access().UseWindows(nullptr);
  channels_.End(why());
}

void Session::ResumeAll() {
  exchanger_.ResumeAll();
  login_.ResumeAll();
  context_.link.ResumeWaiters();
}

}  // namespace dafs::client
