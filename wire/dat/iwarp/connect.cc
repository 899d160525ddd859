// The handshake of an iwarp endpoint: TCP connection, TLS, MPA request and reply, start of the
// stream.
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/files/unique_fd.h"
#include "wire/dat/iwarp/endpoint.h"
#include "wire/dat/refusal.h"
#include "wire/dat/reserved_ports.h"

namespace dafs::dat::iwarp {
namespace {

absl::Status ConnectFailed(int error) {
  absl::Status status = absl::UnavailableError(absl::ErrnoToStatus(error, "connect").message());
  return error == ECONNREFUSED ? Refused(std::move(status)) : status;
}

// SO_REUSEADDR lets connections to different peers share a port. Returns 0 or an errno.
int BindToPort(int fd, int family, uint16_t port) {
  const int on = 1;
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) return errno;
  sockaddr_storage any = {};
  any.ss_family = static_cast<sa_family_t>(family);
  Address local(reinterpret_cast<const sockaddr*>(&any),
                family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  local.set_port(port);
  return bind(fd, local.get(), local.size()) == 0 ? 0 : errno;
}

// Returns a socket that is connected to `peer`, or is connecting.
absl::StatusOr<UniqueFd> StartConnection(const Address& peer, const IwarpOptions& options) {
  ReservedPorts ports;
  bool reserved = options.reserved_port;
  int in_use = 0;
  while (true) {
    absl::StatusOr<UniqueFd> socket = NewTcpSocket(peer.family());
    if (!socket.ok()) return socket.status();
    SetConnectionOptions(socket->get(), options);
    int error = 0;
    if (reserved) {
      const std::optional<uint16_t> port = ports.Next();
      if (!port) return NoReservedPort(in_use);
      if (*port == peer.port()) continue;  // TCP would connect the socket to itself
      error = BindToPort(socket->get(), peer.family(), *port);
      if (IsPortDenied(error)) {
        reserved = false;
        error = 0;
      }
    }
    while (error == 0 && connect(socket->get(), peer.get(), peer.size()) != 0) {
      if (errno != EINTR) error = errno;
    }
    if (error == 0 || error == EINPROGRESS) return socket;
    if (!reserved || !IsPortInUse(error)) {
      return ConnectFailed(error);
    }
    in_use = error;
  }
}

}  // namespace

absl::Status IwarpEndpoint::Connect(std::span<const std::byte> private_data) {
  if (state_ != State::kMade || is_server_) {
    return absl::FailedPreconditionError("connect: not a new client endpoint");
  }
  if (private_data.size() > kMaxUserPrivateData) {
    return absl::InvalidArgumentError(absl::StrCat("connect: private data of ", private_data.size(),
                                                   " bytes, the limit is ", kMaxUserPrivateData));
  }
  if (absl::Status status = deadline_wait_.Open(); !status.ok()) return status;
  absl::StatusOr<UniqueFd> socket = StartConnection(peer_, provider_);
  if (absl::IsResourceExhausted(socket.status())) return socket.status();
  hello_ = MakeRequest({.want_crc = provider_.want_crc && provider_.tls == nullptr,
                        .recognise_peer = provider_.recognise_peer},
                       private_data);
  StartDeadline(provider_.handshake_timeout);
  state_ = State::kConnecting;
  if (socket.ok()) {
    socket_ = *std::move(socket);
  } else {
    Die(socket.status(), true);
  }
  return absl::OkStatus();
}

absl::Status IwarpEndpoint::Accept(std::span<const std::byte> private_data) {
  if (state_ != State::kMade || !is_server_) {
    return absl::FailedPreconditionError("accept: not a new server endpoint");
  }
  if (private_data.size() > kMaxUserPrivateData) {
    return absl::InvalidArgumentError(absl::StrCat("accept: private data of ", private_data.size(),
                                                   " bytes, the limit is ", kMaxUserPrivateData));
  }
  hello_ = MakeReply({.want_crc = WantsCrc(), .recognise_peer = provider_.recognise_peer},
                     peer_hello_, private_data, options_.max_rdma_reads);
  crc_ = WantsCrc() || peer_hello_.frame.crc;
  state_ = State::kAccepting;
  MakeProgress();
  return absl::OkStatus();
}

void IwarpEndpoint::ContinueConnecting() {
  pollfd ready = {.fd = socket_.get(), .events = POLLOUT, .revents = 0};
  if (poll(&ready, 1, 0) <= 0) return;
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    Die(ConnectFailed(error), true);
    return;
  }
  if (provider_.tls == nullptr) {
    state_ = State::kAsking;
    if (SendHello()) ReadReply();
    return;
  }
  absl::StatusOr<std::unique_ptr<TlsStream>> tls = provider_.tls->NewStream(socket_.get());
  if (!tls.ok()) {
    Die(tls.status(), true);
    return;
  }
  tls_ = *std::move(tls);
  state_ = State::kSecuring;
  ContinueSecuring();
}

void IwarpEndpoint::ContinueSecuring() {
  switch (tls_->Handshake()) {
    case TlsStream::Progress::kWaits:
      return;
    case TlsStream::Progress::kFailed:
      // The peer has an alert that says why. A reset could overtake it.
      Die(tls_->error(), false);
      return;
    case TlsStream::Progress::kDone:
      break;
  }
  state_ = State::kAsking;
  if (SendHello()) ReadReply();
}

// Returns true after our whole frame is sent.
bool IwarpEndpoint::SendHello() {
  while (hello_sent_ < hello_.size) {
    iovec piece = {.iov_base = &hello_.bytes[hello_sent_], .iov_len = hello_.size - hello_sent_};
    const ssize_t sent = stream().Send({&piece, 1});
    if (sent < 0 && IsWaiting(errno)) return false;
    if (sent < 0) {
      Die(stream().Error("MPA handshake"), true);
      return false;
    }
    hello_sent_ += static_cast<size_t>(sent);
  }
  return stream().Flush();
}

void IwarpEndpoint::ReadReply() {
  const absl::StatusOr<bool> whole = reply_reader_.Read(stream());
  if (!whole.ok()) {
    Die(whole.status(), true);
    return;
  }
  if (!*whole) return;
  absl::StatusOr<PeerHello> reply = JudgeReply(reply_reader_.frame(), reply_reader_.private_data());
  if (!reply.ok()) {
    Die(reply.status(), true);
    return;
  }
  peer_hello_ = *std::move(reply);
  crc_ = WantsCrc() || peer_hello_.frame.crc;
  OpenStream();
}

void IwarpEndpoint::OpenStream() {
  ChooseCongestionControl(socket_.get());
  StreamOptions options;
  options.stream = stream();
  options.crc = crc_;
  options.max_ulpdu_bytes = ChooseMaxUlpdu(peer_hello_, provider_.recognise_peer, socket_.get());
  options.max_rdma_reads = ChooseMaxRdmaReads(peer_hello_, options_.max_rdma_reads);
  // An end of this provider is ready once it has sent its request; an adapter may not be.
  options.wait_for_first_fpdu = is_server_ && !peer_hello_.trailer.has_value();
  transmit_.Start(options);
  receive_.Start(options);
  state_ = State::kOpen;
  if (deadline_.has_value()) {
    deadline_.reset();
    deadline_wait_.ClearDeadline();
  }
  Completion connected;
  connected.event = Event::kConnected;
  completions_.Push(std::move(connected));
}

}  // namespace dafs::dat::iwarp
