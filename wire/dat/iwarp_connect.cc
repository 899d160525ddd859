// The handshake of an iwarp endpoint: TCP connection, MPA request and reply, start of the stream.
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "wire/dat/iwarp_endpoint.h"

namespace dafs::dat::iwarp {

absl::Status IwarpEndpoint::Connect(std::span<const std::byte> private_data) {
  if (state_ != State::kMade || is_server_) {
    return absl::FailedPreconditionError("connect: not a new client endpoint");
  }
  if (private_data.size() > kMaxUserPrivateData) {
    return absl::InvalidArgumentError(absl::StrCat("connect: private data of ", private_data.size(),
                                                   " bytes, the most is ", kMaxUserPrivateData));
  }
  if (absl::Status status = deadline_wait_.Open(); !status.ok()) return status;
  absl::StatusOr<OwnedFd> socket = NewTcpSocket(peer_.family());
  if (!socket.ok()) return socket.status();
  socket_ = *std::move(socket);
  SetConnectionOptions(socket_.get(), provider_);
  hello_ = MakeRequest(provider_, private_data);
  StartDeadline(provider_.handshake_timeout);
  state_ = State::kConnecting;
  int error = 0;
  do {
    error = connect(socket_.get(), peer_.get(), peer_.size()) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error != 0 && error != EINPROGRESS) {
    Die(absl::UnavailableError(absl::ErrnoToStatus(error, "connect").message()), true);
  }
  return absl::OkStatus();
}

absl::Status IwarpEndpoint::Accept(std::span<const std::byte> private_data) {
  if (state_ != State::kMade || !is_server_) {
    return absl::FailedPreconditionError("accept: not a new server endpoint");
  }
  if (private_data.size() > kMaxUserPrivateData) {
    return absl::InvalidArgumentError(absl::StrCat("accept: private data of ", private_data.size(),
                                                   " bytes, the most is ", kMaxUserPrivateData));
  }
  hello_ = MakeReply(provider_, peer_hello_, private_data, options_.max_rdma_reads);
  crc_ = provider_.want_crc || peer_hello_.frame.crc;
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
    Die(absl::UnavailableError(absl::ErrnoToStatus(error, "connect").message()), true);
    return;
  }
  state_ = State::kAsking;
  if (SendHello()) ReadReply();
}

// True once our frame is sent whole.
bool IwarpEndpoint::SendHello() {
  while (hello_sent_ < hello_.size) {
    const ssize_t sent = send(socket_.get(), &hello_.bytes[hello_sent_], hello_.size - hello_sent_,
                              MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (sent < 0) {
      Die(absl::UnavailableError(absl::ErrnoToStatus(errno, "MPA handshake").message()), true);
      return false;
    }
    hello_sent_ += static_cast<size_t>(sent);
  }
  return true;
}

void IwarpEndpoint::ReadReply() {
  const absl::StatusOr<bool> whole = reply_reader_.Read(socket_.get());
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
  crc_ = provider_.want_crc || peer_hello_.frame.crc;
  OpenStream();
}

void IwarpEndpoint::OpenStream() {
  ChooseCongestionControl(socket_.get());
  StreamOptions stream;
  stream.fd = socket_.get();
  stream.crc = crc_;
  stream.max_ulpdu_bytes = ChooseMaxUlpdu(peer_hello_, provider_.recognise_peer, socket_.get());
  stream.max_rdma_reads = ChooseMaxRdmaReads(peer_hello_, options_.max_rdma_reads);
  // An end of this provider is ready once it has asked; an adapter need not be.
  stream.wait_for_first_fpdu = is_server_ && !peer_hello_.trailer.has_value();
  transmit_.Start(stream);
  receive_.Start(stream);
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
