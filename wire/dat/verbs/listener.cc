#include "wire/dat/verbs/listener.h"

#include <sys/epoll.h>

#include <cerrno>
#include <optional>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"
#include "wire/dat/verbs/errors.h"
#include "wire/dat/verbs/pending.h"

namespace dafs::dat::verbs {

namespace {

absl::StatusOr<std::unique_ptr<Connection>> ListenAt(std::shared_ptr<Opener> opener,
                                                     const Address& local, int backlog) {
  const std::string what = absl::StrCat("listen on rdma ", local.ToString());
  ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection, Connection::Create(std::move(opener)));
  rdma_cm_id* id = connection->id();
  int on = 1;
  // Let a restarted server reuse its port, and let an IPv6 wildcard leave the IPv4 wildcard to
  // another listener.
  auto set = [&](int option) {
    return connection->Call(
        [&] { return rdma_set_option(id, RDMA_OPTION_ID, option, &on, sizeof on); });
  };
  if (set(RDMA_OPTION_ID_REUSEADDR) != 0 ||
      (local.family() == AF_INET6 && set(RDMA_OPTION_ID_AFONLY) != 0)) {
    return CallFailed(what, errno);
  }
  if (connection->CallForDevices(
          [&] { return rdma_bind_addr(id, const_cast<sockaddr*>(local.get())); }) != 0) {
    if (errno == ENODEV || errno == EADDRNOTAVAIL) {
      return absl::UnavailableError(absl::StrCat(
          what,
          ": no RDMA device has this address (devices here: ", DeviceNames(*connection->opener()),
          "; siw and rxe have the addresses of their network device, lo has none)"));
    }
    return CallFailed(what, errno);
  }
  if (connection->Call([&] { return rdma_listen(id, backlog); }) != 0) {
    return CallFailed(what, errno);
  }
  return connection;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> VerbsListener::Create(std::shared_ptr<Opener> opener,
                                                                const Address& local,
                                                                const VerbsOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection,
                   ListenAt(std::move(opener), local, options.backlog));
  const Address bound = connection->local();
  return std::unique_ptr<Listener>(new VerbsListener(std::move(connection), bound, options));
}

absl::StatusOr<std::unique_ptr<PendingEndpoint>> VerbsListener::Next() {
  if (connection_ == nullptr) {
    ASSIGN_OR_RETURN(connection_, ListenAt(opener_, local_, options_.backlog));
  }
  while (std::optional<ConnectionEvent> event = connection_->NextEvent()) {
    if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
      connection_.reset();  // the kernel waits for this
      return absl::UnavailableError(
          absl::StrCat("listen on rdma ", local_.ToString(), ": the RDMA device was removed"));
    }
    if (event->requested == nullptr) continue;
    Origin origin;
    origin.is_server = true;
    const std::span<const std::byte> data = event->private_data();
    origin.private_data.assign(data.begin(), data.end());
    origin.responder_resources = event->responder_resources;
    origin.initiator_depth = event->initiator_depth;
    absl::StatusOr<std::unique_ptr<Connection>> connection =
        Connection::Adopt(connection_->opener(), std::move(event->requested));
    if (!connection.ok()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("listen on rdma ", local_.ToString(),
                       ": request refused: ", connection.status().message()));
    }
    return std::make_unique<VerbsPendingEndpoint>(*std::move(connection), std::move(origin),
                                                  options_);
  }
  return nullptr;
}

WaitHandle VerbsListener::Arm() {
  if (connection_ == nullptr) return {};
  return {.fd = connection_->fd(), .events = EPOLLIN};
}

}  // namespace dafs::dat::verbs
