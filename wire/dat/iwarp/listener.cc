#include "wire/dat/iwarp/listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/files/unique_fd.h"
#include "wire/dat/iwarp/domain.h"
#include "wire/dat/iwarp/endpoint.h"

namespace dafs::dat::iwarp {
namespace {

constexpr int kBacklog = 1024;
// The most connections accepted in one Next, so that a flood cannot keep the thread here.
constexpr int kMaxAcceptsPerNext = 64;

// RFC 8446, 5.1: the first byte of a ClientHello's record.
constexpr uint8_t kTlsHandshakeRecord = 0x16;
// RFC 8446, 6: a fatal alert, handshake_failure.
constexpr uint8_t kNoTlsAlert[] = {0x15, 3, 3, 0, 2, 2, 40};

// Closing with unread bytes would send a reset, which can overtake an alert.
void DiscardInput(int fd) {
  constexpr size_t kMost = 64 << 10;
  (void)recv(fd, nullptr, kMost, MSG_DONTWAIT | MSG_TRUNC);
}

UniqueFd OpenReserve() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// A pending endpoint of either side.
class IwarpPending final : public PendingEndpoint {
 public:
  IwarpPending(const IwarpOptions& options, const Address& peer) : options_(options), peer_(peer) {}
  IwarpPending(const IwarpOptions& options, const Address& peer, UniqueFd socket,
               std::unique_ptr<TlsStream> tls, PeerHello request)
      : options_(options),
        peer_(peer),
        socket_(std::move(socket)),
        tls_(std::move(tls)),
        request_(std::move(request)) {}
  ~IwarpPending() override {
    if (!socket_.valid()) return;
    SendReject({.fd = socket_.get(), .tls = tls_.get()}, request_->frame.crc);
  }

  absl::StatusOr<std::unique_ptr<Domain>> NewDomain() override {
    return std::make_unique<IwarpDomain>();
  }
  bool Fits(const Domain& domain) const override {
    return dynamic_cast<const IwarpDomain*>(&domain) != nullptr;
  }
  absl::StatusOr<std::unique_ptr<Endpoint>> CreateEndpoint(Domain& domain,
                                                           const EndpointOptions& asked) override {
    if (used_) return absl::FailedPreconditionError("an endpoint was created already");
    if (!Fits(domain)) return absl::InvalidArgumentError("the domain is of another transport");
    auto& own = static_cast<IwarpDomain&>(domain);
    absl::StatusOr<EndpointOptions> options = ClampOptions(asked);
    if (!options.ok()) return options.status();
    used_ = true;
    if (!request_.has_value()) {
      return std::make_unique<IwarpEndpoint>(options_, *options, own, peer_);
    }
    return std::make_unique<IwarpEndpoint>(options_, *options, own, peer_, std::move(socket_),
                                           std::move(tls_), *std::exchange(request_, std::nullopt));
  }
  std::span<const std::byte> peer_private_data() const override {
    if (!request_.has_value()) return {};
    return request_->private_data;
  }
  const Address& peer() const override { return peer_; }
  std::shared_ptr<const TlsPeer> tls_peer() const override {
    return tls_ == nullptr ? nullptr : tls_->peer();
  }

 private:
  const IwarpOptions options_;
  Address peer_;
  UniqueFd socket_;
  std::unique_ptr<TlsStream> tls_;    // null: none
  std::optional<PeerHello> request_;  // the server's
  bool used_ = false;
};

}  // namespace

std::unique_ptr<PendingEndpoint> NewClientPending(const IwarpOptions& options,
                                                  const Address& peer) {
  return std::make_unique<IwarpPending>(options, peer);
}

IwarpListener::IwarpListener(const IwarpOptions& options, UniqueFd socket, const Address& local)
    : options_(options), socket_(std::move(socket)), reserve_(OpenReserve()), local_(local) {}

absl::StatusOr<std::unique_ptr<Listener>> IwarpListener::Create(const IwarpOptions& options,
                                                                const Address& local) {
  absl::StatusOr<UniqueFd> socket = NewTcpSocket(local.family());
  if (!socket.ok()) return socket.status();
  const int on = 1;
  (void)setsockopt(socket->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(socket->get(), local.get(), local.size()) != 0 || listen(socket->get(), kBacklog) != 0) {
    return absl::UnavailableError(
        absl::ErrnoToStatus(errno, absl::StrCat("listen on ", local.ToString())).message());
  }
  return Adopt(options, *std::move(socket));
}

absl::StatusOr<std::unique_ptr<Listener>> IwarpListener::Adopt(const IwarpOptions& options,
                                                               UniqueFd socket) {
  const Address bound = LocalAddress(socket.get());
  std::unique_ptr<IwarpListener> listener(new IwarpListener(options, std::move(socket), bound));
  if (absl::Status status = listener->wait_.Open(); !status.ok()) return status;
  listener->wait_.Watch(listener->socket_.get(), EPOLLIN);
  return listener;
}

absl::StatusOr<std::unique_ptr<PendingEndpoint>> IwarpListener::Next() {
  absl::Status accepted = AcceptAll();
  DropExpired();
  for (size_t i = 0; i < half_open_.size();) {
    bool remove = false;
    std::unique_ptr<PendingEndpoint> pending = ReadOne(*half_open_[i], &remove);
    if (remove) {
      Remove(i);
    } else {
      ++i;
    }
    if (pending != nullptr) return pending;
  }
  if (!accepted.ok()) return accepted;
  return nullptr;
}

absl::Status IwarpListener::AcceptAll() {
  for (int i = 0; i < kMaxAcceptsPerNext; ++i) {
    sockaddr_storage from = {};
    socklen_t size = sizeof(from);
    const int fd = accept4(socket_.get(), reinterpret_cast<sockaddr*>(&from), &size,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return absl::OkStatus();
      if (errno != EMFILE && errno != ENFILE) continue;  // the peer's failure, or a signal
      // Out of descriptors: accept and close the peer. Otherwise the listener would stay ready and
      // wake the loop forever.
      reserve_.Close();
      UniqueFd refused(accept(socket_.get(), nullptr, nullptr));
      refused.Close();
      reserve_ = OpenReserve();
      return absl::ResourceExhaustedError("accept: no more descriptors; raise LimitNOFILE");
    }
    auto peer = std::make_unique<HalfOpen>();
    peer->socket = UniqueFd(fd);
    peer->peer = Address(reinterpret_cast<const sockaddr*>(&from), size);
    peer->deadline = MonotonicNow() + options_.handshake_timeout;
    SetConnectionOptions(fd, options_);
    if (half_open_.size() >= options_.max_half_open) Remove(0);
    wait_.Watch(fd, EPOLLIN);
    half_open_.push_back(std::move(peer));
    if (half_open_.size() == 1) wait_.SetDeadline(options_.handshake_timeout);
  }
  return absl::OkStatus();
}

// Reads from `peer`. Sets `*remove` if the connection is complete or has failed.
std::unique_ptr<PendingEndpoint> IwarpListener::ReadOne(HalfOpen& peer, bool* remove) {
  if (peer.step == HalfOpen::Step::kFirstByte && !ReadFirstByte(peer, remove)) return nullptr;
  if (peer.step == HalfOpen::Step::kTls && !ContinueTls(peer, remove)) return nullptr;
  const absl::StatusOr<bool> whole = peer.reader.Read(peer.stream());
  if (whole.ok() && !*whole) return nullptr;
  *remove = true;
  if (!whole.ok()) {
    if (peer.tls != nullptr) RefuseTls(peer, whole.status());
    return nullptr;
  }
  absl::StatusOr<PeerHello> request = JudgeRequest(peer.reader.frame(), peer.reader.private_data());
  if (!request.ok()) {
    if (absl::IsUnimplemented(request.status())) {
      SendReject(peer.stream(), peer.reader.frame().crc);
    }
    return nullptr;
  }
  wait_.Forget(peer.socket.get());
  return std::make_unique<IwarpPending>(options_, peer.peer, std::move(peer.socket),
                                        std::move(peer.tls), *std::move(request));
}

// Chooses the next step. Returns false if the byte has not arrived, or sets `*remove`.
bool IwarpListener::ReadFirstByte(HalfOpen& peer, bool* remove) {
  uint8_t first = 0;
  ssize_t got = 0;
  do {
    got = recv(peer.socket.get(), &first, 1, MSG_DONTWAIT | MSG_PEEK);
  } while (got < 0 && errno == EINTR);
  if (got != 1) {
    *remove = got == 0 || !IsWaiting(errno);
    return false;
  }
  if (first != kTlsHandshakeRecord) {
    peer.step = HalfOpen::Step::kRequest;
    return true;
  }
  if (options_.tls == nullptr) {
    (void)send(peer.socket.get(), kNoTlsAlert, sizeof(kNoTlsAlert), MSG_NOSIGNAL | MSG_DONTWAIT);
    DiscardInput(peer.socket.get());
    RefuseTls(peer, absl::FailedPreconditionError(
                        "TLS: this server has no certificate; start it with --tls-cert and "
                        "--tls-key, or connect without TLS"));
    *remove = true;
    return false;
  }
  absl::StatusOr<std::unique_ptr<TlsStream>> tls = options_.tls->NewStream(peer.socket.get());
  if (!tls.ok()) {
    RefuseTls(peer, tls.status());
    *remove = true;
    return false;
  }
  peer.tls = *std::move(tls);
  peer.step = HalfOpen::Step::kTls;
  return true;
}

// Returns true if the handshake is done.
bool IwarpListener::ContinueTls(HalfOpen& peer, bool* remove) {
  switch (peer.tls->Handshake()) {
    case TlsStream::Progress::kDone:
      peer.step = HalfOpen::Step::kRequest;
      wait_.Change(peer.socket.get(), EPOLLIN);
      return true;
    case TlsStream::Progress::kWaits:
      wait_.Change(peer.socket.get(), peer.tls->has_output() ? EPOLLIN | EPOLLOUT : EPOLLIN);
      return false;
    case TlsStream::Progress::kFailed:
      RefuseTls(peer, peer.tls->error());
      DiscardInput(peer.socket.get());
      *remove = true;
      return false;
  }
  return false;
}

void IwarpListener::RefuseTls(const HalfOpen& peer, const absl::Status& why) const {
  if (options_.on_tls_refused) options_.on_tls_refused(peer.peer, why);
}

void IwarpListener::Remove(size_t index) {
  // Closing a descriptor removes it from the epoll set.
  half_open_.erase(half_open_.begin() + static_cast<std::ptrdiff_t>(index));
  if (half_open_.empty()) {
    wait_.ClearDeadline();
  } else if (index == 0) {
    wait_.SetDeadline(half_open_.front()->deadline - MonotonicNow());
  }
}

void IwarpListener::DropExpired() {
  if (half_open_.empty()) return;
  const absl::Time now = MonotonicNow();
  while (!half_open_.empty() && half_open_.front()->deadline <= now) Remove(0);
}

WaitHandle IwarpListener::Arm() { return {.fd = wait_.fd(), .events = EPOLLIN}; }

}  // namespace dafs::dat::iwarp
