#include "wire/dat/iwarp/listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/unique_fd.h"
#include "wire/dat/iwarp/domain.h"
#include "wire/dat/iwarp/endpoint.h"

namespace dafs::dat::iwarp {
namespace {

constexpr int kBacklog = 1024;
// The most connections accepted in one Next, so that a flood cannot keep the thread here.
constexpr int kMaxAcceptsPerNext = 64;

UniqueFd OpenReserve() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// A pending endpoint of either side.
class IwarpPending final : public PendingEndpoint {
 public:
  IwarpPending(const IwarpOptions& options, const Address& peer) : options_(options), peer_(peer) {}
  IwarpPending(const IwarpOptions& options, const Address& peer, UniqueFd socket, PeerHello request)
      : options_(options), peer_(peer), socket_(std::move(socket)), request_(std::move(request)) {}
  ~IwarpPending() override {
    if (!socket_.valid()) return;
    const MpaFrameBytes reject = MakeReject(request_->frame.crc);
    (void)send(socket_.get(), reject.bytes.data(), reject.size, MSG_NOSIGNAL | MSG_DONTWAIT);
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
                                           *std::exchange(request_, std::nullopt));
  }
  std::span<const std::byte> peer_private_data() const override {
    if (!request_.has_value()) return {};
    return request_->private_data;
  }
  const Address& peer() const override { return peer_; }

 private:
  const IwarpOptions options_;
  Address peer_;
  UniqueFd socket_;
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
  const absl::Status accepted = AcceptAll();
  DropExpired();
  for (size_t i = 0; i < half_open_.size();) {
    bool remove = false;
    std::unique_ptr<PendingEndpoint> pending = ReadOne(i, &remove);
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

// Reads from half_open_[index]. Sets `*remove` if the connection is complete or has failed.
std::unique_ptr<PendingEndpoint> IwarpListener::ReadOne(size_t index, bool* remove) {
  HalfOpen& peer = *half_open_[index];
  const absl::StatusOr<bool> whole = peer.reader.Read(peer.socket.get());
  if (whole.ok() && !*whole) return nullptr;
  *remove = true;
  if (!whole.ok()) return nullptr;
  absl::StatusOr<PeerHello> request = JudgeRequest(peer.reader.frame(), peer.reader.private_data());
  if (!request.ok()) {
    if (absl::IsUnimplemented(request.status())) {
      const MpaFrameBytes reject = MakeReject(peer.reader.frame().crc);
      (void)send(peer.socket.get(), reject.bytes.data(), reject.size, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    return nullptr;
  }
  wait_.Forget(peer.socket.get());
  return std::make_unique<IwarpPending>(options_, peer.peer, std::move(peer.socket),
                                        *std::move(request));
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
