#include "wire/dat/iwarp/endpoint.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "runtime/files/unique_fd.h"

namespace dafs::dat::iwarp {
namespace {

constexpr uint32_t kMaxQueueDepth = 1 << 16;
constexpr uint32_t kMaxSegments = 1024;
constexpr uint32_t kMaxOutboundReads = 128;
// A message offset has 32 bits (RFC 5041, 4.2).
constexpr uint64_t kMaxMessageBytes = 0xffffffff;
// Up to this much posted work is held back, until Flush or Poll at the latest, so that it leaves in
// one sendmsg. This applies to RDMA writes, which the peer does not notice before the next send. It
// also applies to sends after which more follow, and to RDMA reads, because a transfer usually
// posts several.
constexpr uint64_t kHoldBackBytes = 64 << 10;

absl::Status WithPeer(const absl::Status& status, const Address& peer) {
  return absl::Status(status.code(),
                      absl::StrCat("peer ", peer.ToString(), ": ", status.message()));
}

// The code distinguishes a peer that broke the format from one that requested a forbidden access.
absl::Status StatusOf(const StreamFault& fault) {
  if (fault.by_terminate) {
    return absl::AbortedError(
        absl::StrCat("ended the connection with a Terminate: ", Describe(fault.code)));
  }
  const std::string text = absl::StrCat("broke the protocol: ", Describe(fault.code));
  const bool protection = (fault.code.layer == Layer::kRdmap && fault.code.type == 1) ||
                          fault.code == fault::kInvalidStag || fault.code == fault::kBounds ||
                          fault.code == fault::kToWrap || fault.code == fault::kCannotInvalidate;
  return protection ? absl::PermissionDeniedError(text) : absl::DataLossError(text);
}

}  // namespace

absl::StatusOr<EndpointOptions> ClampOptions(const EndpointOptions& options) {
  if (options.max_receives == 0 || options.max_sends == 0 || options.max_segments == 0) {
    return absl::InvalidArgumentError("endpoint options: receives, sends and segments are needed");
  }
  EndpointOptions clamped = options;
  clamped.max_receives = std::min(options.max_receives, kMaxQueueDepth);
  clamped.max_sends = std::min(options.max_sends, kMaxQueueDepth);
  clamped.max_segments = std::min(options.max_segments, kMaxSegments);
  clamped.max_windows = std::min(options.max_windows, kMaxQueueDepth);
  clamped.max_rdma_reads = std::clamp<uint32_t>(options.max_rdma_reads, 1, kMaxOutboundReads);
  return clamped;
}

IwarpEndpoint::IwarpEndpoint(const IwarpOptions& provider, const EndpointOptions& options,
                             IwarpDomain& domain, const Address& peer)
    : provider_(provider),
      options_(options),
      domain_(domain),
      peer_(peer),
      completions_(options.max_sends, options.max_receives, options.max_windows),
      transmit_(options, domain, completions_),
      receive_(options, domain, completions_, transmit_) {
  domain_.AddUser(this);
}

IwarpEndpoint::IwarpEndpoint(const IwarpOptions& provider, const EndpointOptions& options,
                             IwarpDomain& domain, const Address& peer, UniqueFd socket,
                             std::unique_ptr<TlsStream> tls, PeerHello request)
    : IwarpEndpoint(provider, options, domain, peer) {
  is_server_ = true;
  socket_ = std::move(socket);
  tls_ = std::move(tls);
  peer_hello_ = std::move(request);
}

IwarpEndpoint::~IwarpEndpoint() {
  Abort(absl::CancelledError("endpoint destroyed"));
  domain_.RemoveUser(this);
}

absl::Status IwarpEndpoint::PostReceive(uint64_t cookie, Segment into) {
  if (state_ == State::kDead) return absl::UnavailableError("post receive: disconnected");
  if (!domain_.Contains(into)) {
    return absl::InvalidArgumentError("post receive: the segment is outside its region");
  }
  if (!completions_.HasRoomForReceive()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("post receive: ", options_.max_receives, " are posted already"));
  }
  completions_.CountReceive();
  receive_.Post(cookie, into);
  return absl::OkStatus();
}

absl::Status IwarpEndpoint::CheckPost(std::span<const Segment> segments) const {
  if (state_ != State::kOpen) {
    return absl::UnavailableError(state_ < State::kOpen ? "post: not connected yet"
                                                        : "post: disconnected");
  }
  if (segments.size() > options_.max_segments) {
    return absl::InvalidArgumentError(
        absl::StrCat("post: ", segments.size(), " segments, the limit is ", options_.max_segments));
  }
  uint64_t total = 0;
  for (const Segment& segment : segments) {
    if (!domain_.Contains(segment)) {
      return absl::InvalidArgumentError("post: a segment is outside its region");
    }
    total += segment.size_bytes;
  }
  if (total > kMaxMessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("post: ", total, " bytes, the limit is ", kMaxMessageBytes));
  }
  if (!completions_.HasRoomForSend()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("post: ", options_.max_sends, " are posted already"));
  }
  return absl::OkStatus();
}

absl::Status IwarpEndpoint::PostSend(uint64_t cookie, std::span<const Segment> from,
                                     const SendOptions& options) {
  if (absl::Status status = CheckPost(from); !status.ok()) return status;
  completions_.CountSend();
  transmit_.PostSend(cookie, from, options);
  const bool waits = options.more && transmit_.queued_bytes() < kHoldBackBytes;
  if (!waits) Flush();
  return absl::OkStatus();
}

void IwarpEndpoint::Flush() {
  if (IsStreaming() && transmit_.has_work()) FlushTransmit();
}

absl::Status IwarpEndpoint::PostRdmaWrite(uint64_t cookie, std::span<const Segment> from,
                                          RemoteBuffer to, bool signaled) {
  if (absl::Status status = CheckPost(from); !status.ok()) return status;
  completions_.CountSend();
  transmit_.PostRdmaWrite(cookie, from, to, signaled);
  if (transmit_.has_work() && transmit_.queued_bytes() >= kHoldBackBytes) FlushTransmit();
  return absl::OkStatus();
}

absl::Status IwarpEndpoint::PostRdmaRead(uint64_t cookie, std::span<const Segment> into,
                                         RemoteBuffer from) {
  if (absl::Status status = CheckPost(into); !status.ok()) return status;
  completions_.CountSend();
  transmit_.PostRdmaRead(cookie, into, from);
  return absl::OkStatus();
}

// A window is a region of its own. It has a context, bounds and a right, which are checked like
// those of any region, and a peer can invalidate it. It takes effect at once, which the contract
// allows.
absl::StatusOr<RemoteBuffer> IwarpEndpoint::PostBind(const Segment& part, Access access) {
  if (absl::Status status = CheckPost({&part, 1}); !status.ok()) return status;
  if (part.region == nullptr || part.region->access() != Access::kWindows) {
    return absl::InvalidArgumentError("bind: the region is not for windows");
  }
  if (windows_.size() + completions_.invalidations() >= options_.max_windows) {
    return absl::ResourceExhaustedError(
        absl::StrCat("bind: ", options_.max_windows, " windows are in use"));
  }
  auto window = domain_.Register({part.data, part.size_bytes}, access);
  if (!window.ok()) return window.status();
  const RemoteBuffer remote = {(*window)->target_address(), (*window)->context()};
  windows_.emplace(remote.context, *std::move(window));
  return remote;
}

absl::Status IwarpEndpoint::PostInvalidate(uint64_t cookie, uint32_t context) {
  if (state_ == State::kDead || !DropWindow(context)) {
    return absl::NotFoundError("invalidate: there is no such window");
  }
  Completion done;
  done.event = Event::kInvalidated;
  done.cookie = cookie;
  completions_.CountInvalidation();
  completions_.Push(std::move(done));
  return absl::OkStatus();
}

// Returns false if the window does not exist, or the peer has invalidated it.
bool IwarpEndpoint::DropWindow(uint32_t context) {
  const auto at = windows_.find(context);
  if (at == windows_.end()) return false;
  const bool was_bound = !static_cast<const IwarpRegion&>(*at->second).invalidated();
  // Take it out of the table first: destroying it may end the connection and clear the table.
  const std::unique_ptr<Region> window = std::move(at->second);
  windows_.erase(at);
  return was_bound;
}

size_t IwarpEndpoint::Poll(std::span<Completion> out) {
  // Report finished sends without another system call on the socket; epoll watches it.
  if (completions_.empty()) MakeProgress();
  const size_t count = completions_.Drain(out);
  if (windows_.empty()) return count;
  for (const Completion& completion : out.first(count)) {
    if (completion.invalidated_context) DropWindow(*completion.invalidated_context);
  }
  return count;
}

void IwarpEndpoint::MakeProgress() {
  switch (state_) {
    case State::kMade:
    case State::kDead:
      return;
    case State::kConnecting:
      ContinueConnecting();
      break;
    case State::kSecuring:
      ContinueSecuring();
      break;
    case State::kAsking:
      if (SendHello()) ReadReply();
      break;
    case State::kAccepting:
      if (SendHello()) OpenStream();
      break;
    case State::kOpen:
    case State::kDraining:
    case State::kClosing:
      Stream();
      break;
  }
  if (deadline_.has_value()) CheckDeadline();
}

void IwarpEndpoint::Stream() {
  if (state_ != State::kClosing && (transmit_.blocked() || transmit_.has_work())) {
    FlushTransmit();
    if (!IsStreaming()) return;
  }
  switch (receive_.Run()) {
    case Receive::Outcome::kIdle:
      break;
    case Receive::Outcome::kClosed:
      Die(absl::OkStatus(), false);
      return;
    case Receive::Outcome::kLost:
      Die(receive_.lost_status(), true);
      return;
    case Receive::Outcome::kFault:
      HandleFault();
      return;
  }
  if (state_ == State::kClosing) return;
  if (transmit_.has_work()) FlushTransmit();
  if (state_ == State::kDraining && transmit_.drained()) CloseOurHalf();
}

void IwarpEndpoint::FlushTransmit() {
  const absl::Status status = transmit_.Flush();
  if (status.ok() && !transmit_.lost_source()) return;
  if (transmit_.lost_source()) {
    StreamFault fault;
    fault.code = fault::kReadInvalidStag;
    Terminate terminate;
    terminate.code = fault.code;
    transmit_.SendTerminate(terminate);
    Die(WithPeer(StatusOf(fault), peer_), false);
    return;
  }
  // A Terminate that the peer sent before it closed explains more than our failure to send.
  if (receive_.Run() == Receive::Outcome::kFault) {
    HandleFault();
    return;
  }
  Die(status, true);
}

void IwarpEndpoint::HandleFault() {
  const StreamFault& fault = receive_.fault();
  if (!fault.by_terminate && state_ != State::kClosing) {
    Terminate terminate;
    terminate.code = fault.code;
    terminate.ddp_header = std::span(fault.ddp_header).first(fault.ddp_header_bytes);
    terminate.ddp_segment_bytes = fault.ddp_segment_bytes;
    terminate.rdma_header = std::span(fault.rdma_header).first(fault.rdma_header_bytes);
    transmit_.SendTerminate(terminate);
    stream().CloseOurHalf();
    // Closing with unread bytes would send a reset that may overtake the Terminate. The amount
    // discarded is bounded, so a peer that keeps sending may miss the Terminate.
    constexpr size_t kDiscardBytes = 1 << 20;
    for (int i = 0; i < 16; ++i) {
      if (recv(socket_.get(), nullptr, kDiscardBytes, MSG_DONTWAIT | MSG_TRUNC) <= 0) break;
    }
  }
  Die(WithPeer(StatusOf(fault), peer_), false);
}

void IwarpEndpoint::StartDeadline(absl::Duration timeout) {
  deadline_ = MonotonicNow() + timeout;
  deadline_wait_.SetDeadline(timeout);
}

void IwarpEndpoint::CheckDeadline() {
  if (state_ == State::kDead || MonotonicNow() < *deadline_) return;
  const char* what = state_ == State::kClosing || state_ == State::kDraining
                         ? "the peer did not close in time"
                         : "no connection within the handshake timeout";
  Die(absl::DeadlineExceededError(absl::StrCat("peer ", peer_.ToString(), ": ", what)), true);
}

WaitHandle IwarpEndpoint::Arm() {
  if (!completions_.empty()) return {};
  if (state_ == State::kDead || state_ == State::kMade) {
    // Nothing can happen without a call, so return a descriptor that is never ready.
    if (!socket_.valid()) socket_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return {.fd = socket_.get(), .events = EPOLLIN};
  }
  uint32_t events = EPOLLIN;
  if (IsStreaming()) {
    if (stream().may_have_input()) return {};
    if (state_ != State::kClosing && transmit_.has_work()) return {};
    if (state_ != State::kClosing && transmit_.blocked()) events |= EPOLLOUT;
  } else {
    if (state_ == State::kAsking && hello_sent_ == hello_.size && stream().may_have_input()) {
      return {};
    }
    events = HandshakeEvents();
  }
  if (!deadline_.has_value()) return {.fd = socket_.get(), .events = events};
  if (watched_) {
    deadline_wait_.Change(socket_.get(), events);
  } else {
    deadline_wait_.Watch(socket_.get(), events);
    watched_ = true;
  }
  return {.fd = deadline_wait_.fd(), .events = EPOLLIN};
}

uint32_t IwarpEndpoint::HandshakeEvents() const {
  if (state_ != State::kSecuring && hello_sent_ < hello_.size) return EPOLLOUT;
  return stream().has_output() ? EPOLLIN | EPOLLOUT : EPOLLIN;
}

void IwarpEndpoint::Disconnect() {
  if (state_ != State::kOpen) {
    if (!IsStreaming()) Abort(absl::CancelledError("disconnected before the connection was up"));
    return;
  }
  if (!deadline_wait_.Open().ok()) {
    Abort(absl::ResourceExhaustedError("disconnect: no more descriptors"));
    return;
  }
  state_ = State::kDraining;
  StartDeadline(provider_.dead_peer_timeout);
  FlushTransmit();
  if (state_ == State::kDraining && transmit_.drained()) CloseOurHalf();
}

// If TLS waits for the socket, the endpoint stays draining and calls this again.
void IwarpEndpoint::CloseOurHalf() {
  if (!stream().CloseOurHalf()) return;
  state_ = State::kClosing;
  StartDeadline(provider_.close_timeout);
}

void IwarpEndpoint::Abort(absl::Status why) {
  if (state_ == State::kDead) return;
  if (state_ == State::kMade && is_server_) {
    SendReject(stream(), peer_hello_.frame.crc);
    Die(std::move(why), false);
    return;
  }
  Die(std::move(why), true);
}

// Ends the endpoint: reports all work as failed, then kDisconnected, and closes the socket.
void IwarpEndpoint::Die(absl::Status why, bool reset) {
  if (state_ == State::kDead) return;
  state_ = State::kDead;
  if (socket_.valid()) {
    if (watched_) deadline_wait_.Forget(socket_.get());
    if (!reset && tls_ != nullptr) (void)tls_->Close();
    if (reset) ResetOnClose(socket_.get());
    CloseKeepingNumber(socket_.get());
  }
  if (deadline_.has_value()) deadline_wait_.ClearDeadline();
  const absl::Status flushed =
      why.ok() ? absl::UnavailableError("flushed: the connection was closed") : why;
  transmit_.FailAll(flushed);
  receive_.FailAll(flushed);
  windows_.clear();
  Completion disconnected;
  disconnected.event = Event::kDisconnected;
  disconnected.status = std::move(why);
  completions_.Push(std::move(disconnected));
}

void IwarpEndpoint::RegionGone(std::span<const std::byte> memory) {
  if (IsStreaming() && transmit_.RefersTo(memory)) {
    Die(absl::FailedPreconditionError("a region was deregistered while it was being sent"), true);
  }
}

std::shared_ptr<const TlsPeer> IwarpEndpoint::tls_peer() const {
  return tls_ == nullptr ? nullptr : tls_->peer();
}

std::string IwarpEndpoint::description() const {
  return absl::StrCat("iwarp over TCP, ", tls_ == nullptr ? "" : tls_->description() + ", ",
                      "CRC32C ", crc_ ? "on" : "off");
}

}  // namespace dafs::dat::iwarp
