// A connection id of the RDMA connection manager with an event channel of its own, so that its
// owner waits for nobody else's events and can move to another thread. Spec: E.5.3 (connection
// establishment), E.8. One thread at a time. Internal to the verbs provider.
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wire/dat/address.h"
#include "wire/dat/verbs/handles.h"
#include "wire/dat/verbs/opener.h"

namespace dafs::dat::verbs {

// A copy of an event, which is acknowledged at once.
struct ConnectionEvent {
  rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_ERROR;
  int status = 0;
  // Connection events only: what the peer offers and asks for, from our point of view.
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  std::array<std::byte, 256> private_data_bytes = {};
  uint8_t private_data_size = 0;
  CmId requested;  // RDMA_CM_EVENT_CONNECT_REQUEST: the id of the new connection

  std::span<const std::byte> private_data() const {
    return std::span(private_data_bytes).first(private_data_size);
  }
};

// One that goes while the port of its InfiniBand or RoCE device is down is kept by the opener until
// the port is up: the last thing it has to say to its peer does harm before (reachable()).
class Connection {
 public:
  ~Connection();

  // A new id in the TCP port space.
  static absl::StatusOr<std::unique_ptr<Connection>> Create(std::shared_ptr<Opener> opener);
  // Takes over an id of another channel. On failure the id is destroyed, which refuses its request.
  static absl::StatusOr<std::unique_ptr<Connection>> Adopt(std::shared_ptr<Opener> opener, CmId id);

  // Finds route and device to `peer`, over `device` if not empty, from a reserved port if
  // `reserved_port` and the program may bind one. Blocks until `deadline` at most.
  static absl::StatusOr<std::unique_ptr<Connection>> Resolve(std::shared_ptr<Opener> opener,
                                                             const Address& peer,
                                                             const std::string& device,
                                                             bool reserved_port,
                                                             absl::Time deadline);

  // The next event, or nothing when there is none now. Never blocks.
  std::optional<ConnectionEvent> NextEvent();

  // A call of librdmacm on id(), from whatever thread: 0, or not 0 and errno.
  int Call(absl::FunctionRef<int()> call) { return opener_->Call(call); }
  // One by which librdmacm may learn of a new device.
  int CallForDevices(absl::FunctionRef<int()> call) { return opener_->CallForDevices(call); }

  // Whether the connection manager may send the peer a message. Over InfiniBand and RoCE its
  // messages leave by a queue pair that all connections of the device share, and rxe (Linux 6.1 and
  // later, rxe_requester) takes one that finds the link down for the end of that queue pair: no
  // connection is made on the device from then on. So nothing is said while the port is down.
  bool reachable() const;
  // A send has just failed here, perhaps because the link goes down: not reachable for a moment.
  void Distrust() { distrusted_ = true; }

  const std::shared_ptr<Opener>& opener() const { return opener_; }
  rdma_cm_id* id() const { return id_.get(); }
  int fd() const { return base_.channel->fd; }
  // The device; not null once a route, a local address or a peer is known.
  ibv_context* context() const { return id_->verbs; }
  std::string device_name() const;
  Address local() const;
  Address peer() const;

 private:
  // What every connection starts with: the device list keeps the devices open.
  struct Base {
    DeviceList devices;
    EventChannel channel;
  };
  static absl::StatusOr<Base> Open(Opener& opener);

  Connection(std::shared_ptr<Opener> opener, Base base, CmId id)
      : opener_(std::move(opener)), base_(std::move(base)), id_(std::move(id)) {}

  // One whose local address is `local`, with a port as in Resolve. Null: no RDMA device has that
  // address.
  static absl::StatusOr<std::unique_ptr<Connection>> CreateBound(
      const std::shared_ptr<Opener>& opener, Address local, bool reserved_port);
  absl::Status FindRoute(const Address& peer, absl::Time deadline);
  absl::Status Expect(rdma_cm_event_type wanted, const Address& peer, absl::Time deadline);

  std::shared_ptr<Opener> opener_;
  Base base_;
  CmId id_;
  bool distrusted_ = false;
};

}  // namespace dafs::dat::verbs
