// One connection of RPC-over-RDMA, versions 1 and 2. Both ends can make calls and answer them: the
// client in the forward direction, the server in the reverse direction (RFC 8167). The client
// begins with the highest version and continues with a lower one if the server refuses it.
// Spec: RPCRDMA2, RFC 8166. docs/rpcrdma.md has the choices where the draft leaves one.
//
// Everything belongs to the thread of the loop, and nothing blocks. Callbacks may start calls. They
// may not destroy the connection. A destroyed connection drops its calls without their callbacks.
// Regions of its domain are destroyed before it, when no call uses them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "runtime/loop/loop.h"
#include "wire/dat/dat.h"
#include "wire/rpcrdma/call.h"
#include "wire/rpcrdma/link.h"
#include "wire/rpcrdma/options.h"
#include "wire/rpcrdma/property_exchange.h"
#include "wire/rpcrdma/requester.h"
#include "wire/rpcrdma/responder.h"

namespace dafs::rpcrdma {

class Connection final : public Pollable, private Channel::Receiver {
 public:
  // The client's or server's end of `pending`, which may be destroyed then. `loop` outlives it.
  // `handler` answers calls of the peer; null: they get RDMA2_ERR_SYSTEM.
  static absl::StatusOr<std::unique_ptr<Connection>> Connect(Loop& loop,
                                                             dat::PendingEndpoint& pending,
                                                             const Options& options,
                                                             Handler handler = nullptr);
  static absl::StatusOr<std::unique_ptr<Connection>> Accept(Loop& loop,
                                                            dat::PendingEndpoint& pending,
                                                            const Options& options,
                                                            Handler handler);
  ~Connection() override;

  // Makes a call. A server must not before the client's first message. See Requester::Start.
  void Start(Call call, Requester::Done done);

  // Sends an RDMA2_OPTIONAL operation that both ends know, with all, part or none of an RPC
  // message. kFailedPrecondition: not in version 2.
  absl::Status SendOptional(uint32_t type, Bytes info, std::span<const std::byte> payload);
  // Handles one from the peer. Returns false for an unknown type; the peer then gets
  // RDMA2_ERR_INVAL_OPTION.
  using OptionalHandler =
      absl::AnyInvocable<bool(const OptionalBody&, std::span<const std::byte> payload)>;
  void set_optional_handler(OptionalHandler handler) { optional_ = std::move(handler); }

  // Ends the connection: outstanding calls fail with `why` in a later turn of the loop.
  void Close(const absl::Status& why) { Fail(why); }

  bool is_up() const { return is_up_; }  // the transport has connected
  // 0: not agreed yet.
  uint32_t version() const { return link_.version_agreed ? link_.version : 0; }
  const Properties& own_properties() const { return link_.own; }
  const Properties& peer_properties() const { return link_.peer; }
  PropertyExchange& properties() { return properties_; }
  const Requester& requester() const { return *requester_; }
  const Responder& responder() const { return *responder_; }
  dat::Domain& domain() { return link_.channel->domain(); }
  std::string description() const { return link_.channel->endpoint().description(); }
  // Not OK: the connection has ended.
  const absl::Status& status() const { return status_; }

  bool Poll() override;
  WaitHandle Arm() override { return link_.channel->endpoint().Arm(); }

 private:
  Connection(Loop& loop, const Options& options, bool is_client);
  absl::Status Prepare(dat::PendingEndpoint& pending, Handler handler);

  void OnConnected() override;
  void OnMessage(std::span<const std::byte> message, std::optional<uint32_t> invalidated) override;
  void OnDisconnected(const absl::Status& why) override;

  bool TakeVersion(const Header& header);
  void OnFault(const DecodedHeader& decoded);
  void OnRpc(const Header& header, std::span<const std::byte> payload,
             std::optional<uint32_t> invalidated);
  void OnError(const Header& header);
  void OnOptional(const Header& header, std::span<const std::byte> payload);
  void Fail(const absl::Status& why);

  Loop& loop_;
  Link link_;
  absl::Status status_;
  OptionalHandler optional_;
  PropertyExchange properties_{link_};
  std::unique_ptr<Requester> requester_;
  std::unique_ptr<Responder> responder_;
  bool is_up_ = false;
  bool is_down_ = false;  // the endpoint has reported its end
};

// The highest version for the next connection to a server, after one that began with
// `options.highest_version` ended with `connection.status()`. A server that dropped the connection
// before it agreed on a version may not know version 2, and would drop it again (RPCRDMA2 8.2).
uint32_t VersionForRetry(const Connection& connection, const Options& options);

}  // namespace dafs::rpcrdma
