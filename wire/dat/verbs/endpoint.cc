#include "wire/dat/verbs/endpoint.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/files/unique_fd.h"
#include "runtime/status_macros.h"
#include "wire/dat/verbs/errors.h"
#include "wire/dat/verbs/queue_pair.h"

namespace dafs::dat::verbs {
namespace {

// The private data that a connection request or reply can carry. InfiniBand's REQ has 92 bytes, of
// which the connection manager's IP addressing uses 36. Its REP has 196, the limit of
// wire/dat/dat.h.
constexpr size_t kMaxRequestDataInfiniBand = 56;
constexpr size_t kMaxPrivateData = 196;

// 7 means unlimited retries. Receives are posted before the credits that allow a send, so a
// receiver that is not ready is slow, not faulty.
constexpr uint8_t kRetryForEver = 7;
// Transport retries before the peer counts as dead. The maximum, 7, means unlimited retries to rxe
// (Linux 6.1, rxe_completer).
constexpr uint8_t kTransportRetries = 6;

absl::Status AddToEpoll(const UniqueFd& epoll, int fd) {
  epoll_event event = {};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) return CallFailed("epoll_ctl", errno);
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> JoinChannels(int connection_fd, const CompletionChannel& channel) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return CallFailed("epoll_create1", errno);
  RETURN_IF_ERROR(AddToEpoll(epoll, connection_fd));
  RETURN_IF_ERROR(AddToEpoll(epoll, channel->fd));
  return epoll;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Endpoint>> VerbsEndpoint::Create(
    std::unique_ptr<Connection> connection, VerbsDomain& domain, Origin origin,
    const EndpointOptions& options, const VerbsOptions& verbs_options) {
  const DeviceLimits& device = domain.limits();
  SendQueueLimits limits = LimitsOf(device, options);
  const uint32_t max_receives = std::max(options.max_receives, 1u);
  // Each posted request or receive makes at most one entry, so the queue cannot overrun.
  const uint32_t entries = limits.max_requests + max_receives;
  if (max_receives > device.max_work || entries > device.max_completions) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "endpoint with ", max_receives, " receives and ", limits.max_requests, " sends: ",
        device.name, " has queues of ", device.max_work, " and ", device.max_completions));
  }
  Handles handles;
  handles.connection = std::move(connection);
  handles.channel.reset(ibv_create_comp_channel(domain.context()));
  if (handles.channel == nullptr || !MakeNonBlocking(handles.channel->fd)) {
    return CallFailed("make a completion channel", errno);
  }
  ASSIGN_OR_RETURN(handles.epoll, JoinChannels(handles.connection->fd(), handles.channel));
  handles.completions.reset(ibv_create_cq(domain.context(), static_cast<int>(entries), nullptr,
                                          handles.channel.get(), 0));
  if (handles.completions == nullptr) {
    return CallFailed(absl::StrCat("make a completion queue of ", entries, " on ", device.name),
                      errno);
  }
  ASSIGN_OR_RETURN(handles.queue_pair,
                   MakeQueuePair(*handles.connection, domain, handles.completions.get(),
                                 max_receives, verbs_options.inline_bytes, limits));
  return std::unique_ptr<Endpoint>(new VerbsEndpoint(std::move(handles), domain, std::move(origin),
                                                     options, verbs_options, limits));
}

VerbsEndpoint::VerbsEndpoint(Handles handles, VerbsDomain& domain, Origin origin,
                             const EndpointOptions& options, const VerbsOptions& verbs_options,
                             const SendQueueLimits& send_limits)
    : handles_(std::move(handles)),
      domain_(domain),
      origin_(std::move(origin)),
      options_(options),
      peer_(handles_.connection->peer()),
      port_(handles_.connection->id()->port_num),
      probe_(verbs_options.probe_every),
      windows_(domain_.protection_domain(),
               std::min(options.max_windows, domain_.limits().max_windows)),
      queue_(send_limits, ready_),
      receives_(options.max_receives) {
  queue_.Attach(handles_.queue_pair->qp);
  segments_.reserve(send_limits.max_segments);
  ready_.Reserve(receives_.capacity() + send_limits.max_operations + 2);
}

VerbsEndpoint::~VerbsEndpoint() {
  if (state_ == State::kMade && origin_.is_server && handles_.connection->reachable()) {
    handles_.connection->Call(
        [this] { return rdma_reject(handles_.connection->id(), nullptr, 0); });
  }
  if (was_connected_ && state_ != State::kDead) End(absl::CancelledError("endpoint destroyed"));
}

rdma_conn_param VerbsEndpoint::ConnectionParameters(std::span<const std::byte> private_data) const {
  const DeviceLimits& device = domain_.limits();
  uint32_t reads_in = std::min(device.max_reads_in, uint32_t{255});
  uint32_t reads_out = queue_.limits().max_reads;
  if (origin_.is_server) {
    // An iWARP peer may be unable to report this (MPA revision 1). 0 then means unknown.
    const bool may_be_unsaid = device.is_iwarp;
    if (!may_be_unsaid || origin_.responder_resources > 0) {
      reads_in = std::min<uint32_t>(reads_in, origin_.responder_resources);
    }
    if (!may_be_unsaid || origin_.initiator_depth > 0) {
      reads_out = std::min<uint32_t>(reads_out, origin_.initiator_depth);
    }
  }
  rdma_conn_param parameters = {};
  parameters.private_data = private_data.data();
  parameters.private_data_len = static_cast<uint8_t>(private_data.size());
  parameters.responder_resources = static_cast<uint8_t>(reads_in);
  parameters.initiator_depth = static_cast<uint8_t>(reads_out);
  parameters.retry_count = kTransportRetries;
  parameters.rnr_retry_count = kRetryForEver;
  return parameters;
}

absl::Status VerbsEndpoint::Connect(std::span<const std::byte> private_data) {
  if (state_ != State::kMade || origin_.is_server) {
    return absl::FailedPreconditionError("connect: not a new client endpoint");
  }
  const size_t most = domain_.limits().is_iwarp ? kMaxPrivateData : kMaxRequestDataInfiniBand;
  if (private_data.size() > most) {
    return absl::InvalidArgumentError(absl::StrCat("connect: private data of ", private_data.size(),
                                                   " bytes, the limit of the device is ", most));
  }
  if (!handles_.connection->reachable()) {
    return absl::UnavailableError(absl::StrCat("connect to ", peer_.ToString(), ": port ",
                                               static_cast<int>(port_), " of RDMA device ",
                                               domain_.limits().name, " is down (ip link)"));
  }
  rdma_conn_param parameters = ConnectionParameters(private_data);
  rdma_cm_id* id = handles_.connection->id();
  if (handles_.connection->Call([&] { return rdma_connect(id, &parameters); }) != 0) {
    // Software iWARP connects its TCP socket in this call. Report a refusal by the peer as an event
    // there too.
    if (errno == EINVAL || errno == ENOMEM || errno == ENODEV) {
      return CallFailed(absl::StrCat("connect to ", peer_.ToString()), errno);
    }
    fault_ =
        ConnectionEnded(errno == ECONNREFUSED ? RDMA_CM_EVENT_REJECTED : RDMA_CM_EVENT_UNREACHABLE,
                        -errno, peer_, domain_.limits().is_iwarp);
  }
  state_ = State::kConnecting;
  return absl::OkStatus();
}

absl::Status VerbsEndpoint::Accept(std::span<const std::byte> private_data) {
  if (state_ != State::kMade || !origin_.is_server) {
    return absl::FailedPreconditionError("accept: not a new server endpoint");
  }
  if (private_data.size() > kMaxPrivateData) {
    return absl::InvalidArgumentError(absl::StrCat("accept: private data of ", private_data.size(),
                                                   " bytes, at most ", kMaxPrivateData));
  }
  rdma_conn_param parameters = ConnectionParameters(private_data);
  queue_.LimitReads(parameters.initiator_depth);
  rdma_cm_id* id = handles_.connection->id();
  if (handles_.connection->Call([&] { return rdma_accept(id, &parameters); }) != 0) {
    return CallFailed(absl::StrCat("accept ", peer_.ToString()), errno);
  }
  state_ = State::kAccepting;
  return absl::OkStatus();
}

absl::Status VerbsEndpoint::CheckOpen(const char* what) const {
  switch (state_) {
    case State::kConnected:
      if (fault_.ok()) return absl::OkStatus();
      break;
    case State::kMade:
    case State::kConnecting:
    case State::kAccepting:
      return absl::FailedPreconditionError(absl::StrCat(what, ": not connected yet"));
    default:
      break;
  }
  return absl::UnavailableError(absl::StrCat(what, ": disconnected from ", peer_.ToString()));
}

absl::Status VerbsEndpoint::ToSegments(std::span<const Segment> from, bool is_read_sink,
                                       std::vector<ibv_sge>* segments) const {
  if (from.size() > max_segments()) {
    return absl::InvalidArgumentError(
        absl::StrCat("post: ", from.size(), " segments, at most ", max_segments()));
  }
  segments->clear();
  for (const Segment& segment : from) {
    if (segment.region == nullptr) return absl::InvalidArgumentError("post: no region");
    const auto& region = static_cast<const VerbsRegion&>(*segment.region);
    const std::span<std::byte> memory = region.memory();
    const auto begin = reinterpret_cast<uintptr_t>(memory.data());
    const auto at = reinterpret_cast<uintptr_t>(segment.data);
    if (&region.domain() != &domain_ || at < begin || at - begin > memory.size() ||
        segment.size_bytes > memory.size() - (at - begin)) {
      return absl::InvalidArgumentError(
          absl::StrCat("post: segment of ", segment.size_bytes, " bytes outside its region"));
    }
    if (is_read_sink && !region.can_be_read_sink()) {
      return absl::InvalidArgumentError(
          "post RDMA read: this device does not read into a region of remote-read access");
    }
    segments->push_back({.addr = at, .length = segment.size_bytes, .lkey = region.local_key()});
  }
  return absl::OkStatus();
}

absl::Status VerbsEndpoint::PostReceive(uint64_t cookie, Segment into) {
  if (state_ != State::kMade && state_ != State::kConnecting && state_ != State::kAccepting) {
    RETURN_IF_ERROR(CheckOpen("post receive"));
  }
  if (receives_.full()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("post receive: ", receives_.capacity(), " are outstanding"));
  }
  RETURN_IF_ERROR(ToSegments(std::span(&into, 1), false, &segments_));
  ibv_recv_wr request = {};
  request.wr_id = receives_.posted() | SendQueue::kReceiveBit;
  request.sg_list = segments_.data();
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  if (int error = ibv_post_recv(handles_.queue_pair->qp, &request, &bad); error != 0) {
    absl::Status status = absl::UnavailableError(absl::StrCat(
        "post receive, peer ", peer_.ToString(), ": ", std::strerror(std::abs(error))));
    Break(status);
    return status;
  }
  receives_.Push(cookie);
  return absl::OkStatus();
}

absl::Status VerbsEndpoint::Submit(const SendQueue::Operation& operation,
                                   std::span<const Segment> segments) {
  RETURN_IF_ERROR(CheckOpen("post"));
  RETURN_IF_ERROR(ToSegments(segments, operation.event == Event::kRdmaRead, &segments_));
  absl::Status status = queue_.Submit(operation, segments_);
  if (absl::IsUnavailable(status)) Break(status);
  return status;
}

absl::Status VerbsEndpoint::PostSend(uint64_t cookie, std::span<const Segment> from,
                                     const SendOptions& options) {
  if (options.invalidate_context && !domain_.limits().can_invalidate) {
    return absl::UnimplementedError(
        absl::StrCat("send with invalidate: ", domain_.limits().name, " does not offer it"));
  }
  return Submit({.event = Event::kSend,
                 .cookie = cookie,
                 .signaled = options.signaled,
                 .more = options.more,
                 .invalidate_context = options.invalidate_context,
                 .remote = {},
                 .window = nullptr,
                 .window_key = 0,
                 .bind = {}},
                from);
}

absl::StatusOr<RemoteBuffer> VerbsEndpoint::PostBind(const Segment& part, Access access) {
  RETURN_IF_ERROR(CheckOpen("bind"));
  RETURN_IF_ERROR(ToSegments({&part, 1}, false, &segments_));
  if (part.size_bytes == 0 || part.region->access() != Access::kWindows ||
      (access != Access::kRemoteRead && access != Access::kRemoteWrite)) {
    return absl::InvalidArgumentError(
        "bind: no bytes, or a region or an access right that windows do not allow");
  }
  ASSIGN_OR_RETURN(const Windows::Choice choice, windows_.Take());
  SendQueue::Operation operation;
  operation.event = Event::kInvalidated;
  operation.cookie = ~uint64_t{0};
  operation.signaled = false;
  operation.more = true;
  operation.window = choice.window;
  operation.window_key = choice.key;
  operation.bind.mr = static_cast<const VerbsRegion&>(*part.region).handle();
  operation.bind.addr = reinterpret_cast<uintptr_t>(part.data);
  operation.bind.length = part.size_bytes;
  operation.bind.mw_access_flags =
      access == Access::kRemoteRead ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  if (absl::Status status = queue_.Submit(operation, {}); !status.ok()) {
    windows_.Untake(choice);
    if (absl::IsUnavailable(status)) Break(status);
    return status;
  }
  windows_.Bound(choice);
  return RemoteBuffer{operation.bind.addr, choice.key};
}

absl::Status VerbsEndpoint::PostInvalidate(uint64_t cookie, uint32_t context) {
  // The window may come from a bind that was refused. rdma_rxe does not survive ending an unbound
  // window.
  if (state_ == State::kBroken) return CheckOpen("invalidate");
  if (state_ == State::kDead || !windows_.StartEnding(context)) {
    return absl::NotFoundError("invalidate: there is no such window");
  }
  SendQueue::Operation operation;
  operation.event = Event::kInvalidated;
  operation.cookie = cookie;
  operation.invalidate_context = context;
  absl::Status status = queue_.Submit(operation, {});
  if (absl::IsUnavailable(status)) Break(status);
  return status;
}

absl::Status VerbsEndpoint::PostRdmaWrite(uint64_t cookie, std::span<const Segment> from,
                                          RemoteBuffer to, bool signaled) {
  return Submit({.event = Event::kRdmaWrite,
                 .cookie = cookie,
                 .signaled = signaled,
                 .more = !signaled,
                 .invalidate_context = std::nullopt,
                 .remote = to,
                 .window = nullptr,
                 .window_key = 0,
                 .bind = {}},
                from);
}

absl::Status VerbsEndpoint::PostRdmaRead(uint64_t cookie, std::span<const Segment> into,
                                         RemoteBuffer from) {
  return Submit({.event = Event::kRdmaRead,
                 .cookie = cookie,
                 .signaled = true,
                 .more = false,
                 .invalidate_context = std::nullopt,
                 .remote = from,
                 .window = nullptr,
                 .window_key = 0,
                 .bind = {}},
                into);
}

void VerbsEndpoint::Flush() {
  if ((state_ != State::kConnected && state_ != State::kClosing) || !fault_.ok()) return;
  if (absl::Status status = queue_.Ring(); !status.ok()) Break(std::move(status));
}

size_t VerbsEndpoint::Poll(std::span<Completion> out) {
  Flush();
  if (ready_.empty()) Progress();
  const size_t count = ready_.Take(out);
  for (Completion& completion : out.first(count)) {
    if (completion.event != Event::kInvalidated || !completion.invalidated_context) continue;
    windows_.Ended(*std::exchange(completion.invalidated_context, std::nullopt));
  }
  return count;
}

WaitHandle VerbsEndpoint::Arm() {
  Flush();
  if (!ready_.empty() || !fault_.ok() || must_poll_) return {};
  armed_ = true;
  if (polls_completions()) {
    // Request a notification for all completions, not only solicited ones. The second poll finds
    // completions that came before the request; later ones make the descriptor ready.
    ibv_req_notify_cq(handles_.completions.get(), 0);
    if (PollCompletions() > 0 || !ready_.empty() || !fault_.ok()) return {};
  }
  return {.fd = handles_.epoll.get(), .events = EPOLLIN};
}

void VerbsEndpoint::Disconnect() {
  switch (state_) {
    case State::kConnected:
      state_ = State::kClosing;
      must_poll_ = true;
      break;
    case State::kMade:
    case State::kConnecting:
    case State::kAccepting:
      Abort(absl::CancelledError("disconnected before the connection was up"));
      break;
    default:
      break;
  }
  armed_ = true;
}

void VerbsEndpoint::Abort(absl::Status why) {
  if (state_ == State::kDead || !fault_.ok()) return;
  fault_ = why.ok() ? absl::CancelledError("aborted") : std::move(why);
}

std::string VerbsEndpoint::description() const {
  return absl::StrCat("verbs device ", domain_.limits().name, " port ", static_cast<int>(port_),
                      domain_.limits().is_iwarp ? " (iWARP)" : " (InfiniBand or RoCE)", ", inline ",
                      queue_.limits().inline_bytes, " bytes");
}

}  // namespace dafs::dat::verbs
