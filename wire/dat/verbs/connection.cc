#include "wire/dat/verbs/connection.h"

#include <ifaddrs.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/status_macros.h"
#include "wire/dat/reserved_ports.h"
#include "wire/dat/verbs/errors.h"

namespace dafs::dat::verbs {
namespace {

int MillisecondsUntil(absl::Time deadline) {
  constexpr int64_t kLongest = 3'600'000;
  return static_cast<int>(
      std::clamp<int64_t>(absl::ToInt64Milliseconds(deadline - absl::Now()), 0, kLongest));
}

Address ToAddress(const sockaddr* address) {
  return Address(address,
                 address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
}

Address AnyAddress(int family) {
  sockaddr_storage any = {};
  any.ss_family = static_cast<sa_family_t>(family);
  return ToAddress(reinterpret_cast<const sockaddr*>(&any));
}

// The machine's own addresses of `family`, with port 0.
std::vector<Address> LocalAddresses(int family) {
  std::vector<Address> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == family) {
      addresses.push_back(ToAddress(entry->ifa_addr));
    }
  }
  freeifaddrs(list);
  return addresses;
}

// Whether the port of `id` is known to be down. Always false for iWARP, whose connection messages
// use TCP.
bool PortIsDown(Opener& opener, const rdma_cm_id* id) {
  if (id == nullptr || id->verbs == nullptr ||
      id->verbs->device->transport_type == IBV_TRANSPORT_IWARP) {
    return false;
  }
  ibv_port_attr port = {};
  const bool asked =
      opener.Call([&] { return errno = ibv_query_port(id->verbs, id->port_num, &port); }) == 0;
  return asked && port.state == IBV_PORT_DOWN;
}

}  // namespace

bool Connection::reachable() const { return !distrusted_ && !PortIsDown(*opener_, id_.get()); }

Connection::~Connection() {
  if (reachable()) return;
  // Members are destroyed in reverse order: first the id, then what it depends on.
  struct Parked {
    Base base;
    CmId id;
  };
  auto parked = std::make_shared<Parked>(Parked{std::move(base_), std::move(id_)});
  Opener* const opener = opener_.get();
  opener->Park(
      [opener, parked = std::move(parked)] { return !PortIsDown(*opener, parked->id.get()); });
}

absl::StatusOr<Connection::Base> Connection::Open(Opener& opener) {
  RETURN_IF_ERROR(CheckDevices(opener));
  Base base;
  // This opens files. The opener's thread does it, so that all files belong to the same
  // credentials.
  opener.RunForDevices([&base] {
    base.devices.reset(rdma_get_devices(nullptr));
    if (base.devices != nullptr) base.channel.reset(rdma_create_event_channel());
  });
  if (base.channel == nullptr || !MakeNonBlocking(base.channel->fd)) {
    return CallFailed("rdma: make an event channel", errno);
  }
  return base;
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Create(std::shared_ptr<Opener> opener) {
  ASSIGN_OR_RETURN(Base base, Open(*opener));
  rdma_cm_id* id = nullptr;
  if (opener->Call([&] { return rdma_create_id(base.channel.get(), &id, nullptr, RDMA_PS_TCP); }) !=
      0) {
    return CallFailed("rdma: make a connection id", errno);
  }
  CmId owned(id, {opener.get()});
  return std::unique_ptr<Connection>(
      new Connection(std::move(opener), std::move(base), std::move(owned)));
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Adopt(std::shared_ptr<Opener> opener,
                                                              CmId id) {
  ASSIGN_OR_RETURN(Base base, Open(*opener));
  if (opener->Call([&] { return rdma_migrate_id(id.get(), base.channel.get()); }) != 0) {
    return CallFailed("rdma: move a connection request to its own channel", errno);
  }
  return std::unique_ptr<Connection>(
      new Connection(std::move(opener), std::move(base), std::move(id)));
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Resolve(std::shared_ptr<Opener> opener,
                                                                const Address& peer,
                                                                const std::string& device,
                                                                bool reserved_port,
                                                                absl::Time deadline) {
  if (device.empty()) {
    ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection,
                     CreateBound(opener, AnyAddress(peer.family()), reserved_port));
    if (connection == nullptr) return absl::UnavailableError("rdma: no local address");
    RETURN_IF_ERROR(connection->FindRoute(peer, deadline));
    return connection;
  }
  absl::Status last = absl::UnavailableError(absl::StrCat(
      "rdma ", peer.ToString(), ": no local address belongs to RDMA device ", device,
      " (devices here: ", DeviceNames(*opener), "; ip addr add ... dev its network device)"));
  for (const Address& local : LocalAddresses(peer.family())) {
    ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection,
                     CreateBound(opener, local, reserved_port));
    // Skip addresses of other devices, and those that no device accepts.
    if (connection == nullptr || connection->context() == nullptr ||
        connection->device_name() != device) {
      continue;
    }
    last = connection->FindRoute(peer, deadline);
    if (last.ok()) return connection;
    if (absl::IsDeadlineExceeded(last)) break;
  }
  return last;
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::CreateBound(
    const std::shared_ptr<Opener>& opener, Address local, bool reserved_port) {
  ReservedPorts ports;
  int in_use = 0;
  while (true) {
    const std::optional<uint16_t> port = reserved_port ? ports.Next() : 0;
    if (!port) return NoReservedPort(in_use);
    local.set_port(*port);
    ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection, Create(opener));
    if (connection->CallForDevices([&] {
          return rdma_bind_addr(connection->id(), const_cast<sockaddr*>(local.get()));
        }) == 0) {
      return connection;
    }
    if (!reserved_port) return nullptr;
    if (IsPortDenied(errno)) {
      reserved_port = false;
    } else if (IsPortInUse(errno)) {
      in_use = errno;
    } else {
      return nullptr;
    }
  }
}

absl::Status Connection::FindRoute(const Address& peer, absl::Time deadline) {
  const std::string what = absl::StrCat("rdma ", peer.ToString(), ": no route over an RDMA device");
  const int timeout = std::max(MillisecondsUntil(deadline), 1);
  if (Call([&] {
        return rdma_resolve_addr(id(), nullptr, const_cast<sockaddr*>(peer.get()), timeout);
      }) != 0) {
    return CallFailed(what, errno);
  }
  RETURN_IF_ERROR(Expect(RDMA_CM_EVENT_ADDR_RESOLVED, peer, deadline));
  const int route_timeout = std::max(MillisecondsUntil(deadline), 1);
  if (Call([&] { return rdma_resolve_route(id(), route_timeout); }) != 0) {
    return CallFailed(what, errno);
  }
  return Expect(RDMA_CM_EVENT_ROUTE_RESOLVED, peer, deadline);
}

absl::Status Connection::Expect(rdma_cm_event_type wanted, const Address& peer,
                                absl::Time deadline) {
  while (true) {
    std::optional<ConnectionEvent> event = NextEvent();
    if (event.has_value() && event->type == wanted) return absl::OkStatus();
    if (event.has_value()) {
      const std::string why =
          absl::StrCat("rdma ", peer.ToString(), ": no route over an RDMA device (",
                       rdma_event_str(event->type), ", ", std::strerror(std::abs(event->status)),
                       "; devices here: ", DeviceNames(*opener_), ")");
      return std::abs(event->status) == ETIMEDOUT ? absl::DeadlineExceededError(why)
                                                  : absl::UnavailableError(why);
    }
    pollfd ready = {.fd = fd(), .events = POLLIN, .revents = 0};
    const int count = poll(&ready, 1, MillisecondsUntil(deadline));
    if (count < 0 && errno != EINTR) return CallFailed("rdma: wait for a route", errno);
    if (count == 0) {
      return absl::DeadlineExceededError(
          absl::StrCat("rdma ", peer.ToString(), ": no route found in time"));
    }
  }
}

std::optional<ConnectionEvent> Connection::NextEvent() {
  // Usually there is no event. A poll(2) is cheaper than the call, and this thread can make it
  // itself.
  pollfd ready = {.fd = fd(), .events = POLLIN, .revents = 0};
  if (poll(&ready, 1, 0) <= 0) return std::nullopt;
  rdma_cm_event* event = nullptr;
  if (CallForDevices([&] { return rdma_get_cm_event(base_.channel.get(), &event); }) != 0) {
    return std::nullopt;
  }
  ConnectionEvent copy;
  copy.type = event->event;
  copy.status = event->status;
  const bool of_connection = event->event == RDMA_CM_EVENT_CONNECT_REQUEST ||
                             event->event == RDMA_CM_EVENT_ESTABLISHED ||
                             event->event == RDMA_CM_EVENT_REJECTED;
  if (of_connection) {
    const rdma_conn_param& parameters = event->param.conn;
    copy.responder_resources = parameters.responder_resources;
    copy.initiator_depth = parameters.initiator_depth;
    if (parameters.private_data != nullptr) {
      copy.private_data_size = parameters.private_data_len;
      std::memcpy(copy.private_data_bytes.data(), parameters.private_data,
                  parameters.private_data_len);
    }
  }
  if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
    copy.requested = CmId(event->id, {opener_.get()});
  rdma_ack_cm_event(event);
  return copy;
}

std::string Connection::device_name() const {
  return context() == nullptr ? std::string() : ibv_get_device_name(context()->device);
}

Address Connection::local() const { return ToAddress(rdma_get_local_addr(id_.get())); }

Address Connection::peer() const { return ToAddress(rdma_get_peer_addr(id_.get())); }

}  // namespace dafs::dat::verbs
