// A connection id of the RDMA connection manager with an event channel of its own. The owner
// therefore receives only its own events, and the id can move to another thread. Spec: E.5.3
// (connection establishment), E.8. One thread at a time. Internal to the verbs provider.
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

// A copy of an event. The event itself is acknowledged at once.
struct ConnectionEvent {
  rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_ERROR;
  int status = 0;
  // Connection events only: the resources that the peer offers and requests, from our point of
  // view.
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  std::array<std::byte, 256> private_data_bytes = {};
  uint8_t private_data_size = 0;
  CmId requested;  // RDMA_CM_EVENT_CONNECT_REQUEST: the id of the new connection

  std::span<const std::byte> private_data() const {
    return std::span(private_data_bytes).first(private_data_size);
  }
};

// A connection id and its event channel. If the Connection is destroyed while the port of its
// InfiniBand or RoCE device is down, the opener keeps the id until the port is up. A last message
// to the peer would do harm before that (reachable()).
class Connection {
 public:
  ~Connection();

  // Makes a new id in the TCP port space.
  static absl::StatusOr<std::unique_ptr<Connection>> Create(std::shared_ptr<Opener> opener);
  // Takes over an id from another channel. On failure destroys the id, which refuses its request.
  static absl::StatusOr<std::unique_ptr<Connection>> Adopt(std::shared_ptr<Opener> opener, CmId id);

  // Finds the route and device to `peer`. Uses `device` if it is not empty. Binds a reserved port
  // if `reserved_port` is true and the program may bind one. Blocks until `deadline` at most.
  static absl::StatusOr<std::unique_ptr<Connection>> Resolve(std::shared_ptr<Opener> opener,
                                                             const Address& peer,
                                                             const std::string& device,
                                                             bool reserved_port,
                                                             absl::Time deadline);

  // Returns the next event, or nullopt if there is none now. Never blocks.
  std::optional<ConnectionEvent> NextEvent();

  // Makes a librdmacm call on id() from any thread. Returns 0, or sets errno and returns another
  // value.
  int Call(absl::FunctionRef<int()> call) { return opener_->Call(call); }
  // The same for a call by which librdmacm may learn of a new device.
  int CallForDevices(absl::FunctionRef<int()> call) { return opener_->CallForDevices(call); }

  // Whether the connection manager may send the peer a message. Over InfiniBand and RoCE its
  // messages use a queue pair that all connections of the device share. If rxe finds the link down
  // when it sends such a message, it ends that queue pair (Linux 6.1 and later, rxe_requester), and
  // no connection can be made on the device any more. So no message may be sent while the port is
  // down.
  bool reachable() const;
  // Records that a send has just failed here, perhaps because the link is going down. The
  // connection is then not reachable.
  void Distrust() { distrusted_ = true; }

  const std::shared_ptr<Opener>& opener() const { return opener_; }
  rdma_cm_id* id() const { return id_.get(); }
  int fd() const { return base_.channel->fd; }
  // The device. Not null after a route, a local address or a peer is known.
  ibv_context* context() const { return id_->verbs; }
  std::string device_name() const;
  Address local() const;
  Address peer() const;

 private:
  // The base of every connection. The device list keeps the devices open.
  struct Base {
    DeviceList devices;
    EventChannel channel;
  };
  static absl::StatusOr<Base> Open(Opener& opener);

  Connection(std::shared_ptr<Opener> opener, Base base, CmId id)
      : opener_(std::move(opener)), base_(std::move(base)), id_(std::move(id)) {}

  // Makes a connection bound to local address `local`, with a port as in Resolve. Returns null if
  // no RDMA device has that address.
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
