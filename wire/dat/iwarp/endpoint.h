// One end of an iwarp connection: the handshake, the posts, and the order in which its sending and
// receiving halves run. wire/dat/dat.h has the contract of each call.
// Spec: RFC 5040, 6 (stream set-up and teardown); RFC 5044, 7; WIRE 11.6.
// Belongs to one thread.
//
// States: made -> connecting -> securing (TLS) -> asking (client) or accepting (server) -> open
//         -> draining (Disconnect: send what was posted) -> closing (our half is closed)
//         -> dead (kDisconnected is in the completion queue).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/files/unique_fd.h"
#include "wire/dat/dat.h"
#include "wire/dat/iwarp/byte_stream.h"
#include "wire/dat/iwarp/completions.h"
#include "wire/dat/iwarp/domain.h"
#include "wire/dat/iwarp/handshake.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/dat/iwarp/receive.h"
#include "wire/dat/iwarp/socket.h"
#include "wire/dat/iwarp/transmit.h"
#include "wire/dat/tls.h"

namespace dafs::dat::iwarp {

class IwarpEndpoint final : public Endpoint, private RegionUser {
 public:
  // A client's endpoint, not yet connected. `options` must come from ClampOptions.
  IwarpEndpoint(const IwarpOptions& provider, const EndpointOptions& options, IwarpDomain& domain,
                const Address& peer);
  // A server's endpoint. `socket` is connected and `request` was read from it. `tls`: null for
  // none.
  IwarpEndpoint(const IwarpOptions& provider, const EndpointOptions& options, IwarpDomain& domain,
                const Address& peer, UniqueFd socket, std::unique_ptr<TlsStream> tls,
                PeerHello request);
  ~IwarpEndpoint() override;

  absl::Status Connect(std::span<const std::byte> private_data) override;
  absl::Status Accept(std::span<const std::byte> private_data) override;
  absl::Status PostReceive(uint64_t cookie, Segment into) override;
  absl::Status PostSend(uint64_t cookie, std::span<const Segment> from,
                        const SendOptions& options) override;
  absl::Status PostRdmaWrite(uint64_t cookie, std::span<const Segment> from, RemoteBuffer to,
                             bool signaled) override;
  absl::Status PostRdmaRead(uint64_t cookie, std::span<const Segment> into,
                            RemoteBuffer from) override;
  absl::StatusOr<RemoteBuffer> PostBind(const Segment& part, Access access) override;
  absl::Status PostInvalidate(uint64_t cookie, uint32_t context) override;
  void Flush() override;
  size_t Poll(std::span<Completion> out) override;
  WaitHandle Arm() override;
  void Disconnect() override;
  void Abort(absl::Status why) override;
  std::span<const std::byte> peer_private_data() const override { return peer_hello_.private_data; }
  const Address& peer() const override { return peer_; }
  uint32_t max_segments() const override { return options_.max_segments; }
  std::shared_ptr<const TlsPeer> tls_peer() const override;
  std::string description() const override;

 private:
  enum class State : uint8_t {
    kMade,
    kConnecting,
    kSecuring,
    kAsking,
    kAccepting,
    kOpen,
    kDraining,
    kClosing,
    kDead,
  };

  bool IsStreaming() const {
    return state_ == State::kOpen || state_ == State::kDraining || state_ == State::kClosing;
  }
  ByteStream stream() const { return {.fd = socket_.get(), .tls = tls_.get()}; }
  bool WantsCrc() const { return provider_.want_crc && tls_ == nullptr; }
  uint32_t HandshakeEvents() const;
  absl::Status CheckPost(std::span<const Segment> segments) const;
  void StartDeadline(absl::Duration timeout);
  void MakeProgress();
  void ContinueConnecting();
  void ContinueSecuring();
  bool SendHello();
  void ReadReply();
  void OpenStream();
  void Stream();
  void FlushTransmit();
  void HandleFault();
  void CheckDeadline();
  void CloseOurHalf();
  void Die(absl::Status why, bool reset);
  bool DropWindow(uint32_t context);
  void RegionGone(std::span<const std::byte> memory) override;

  const IwarpOptions provider_;
  const EndpointOptions options_;
  IwarpDomain& domain_;
  Address peer_;
  UniqueFd socket_;
  std::unique_ptr<TlsStream> tls_;  // null: none
  DeadlineWait deadline_wait_;      // opened when a deadline is first needed
  std::optional<absl::Time> deadline_;
  bool watched_ = false;  // whether deadline_wait_ watches the socket
  State state_ = State::kMade;
  bool is_server_ = false;
  bool crc_ = false;

  MpaFrameBytes hello_;  // our request or reply
  size_t hello_sent_ = 0;
  MpaFrameReader reply_reader_{MpaFrameKind::kReply};
  PeerHello peer_hello_;

  absl::flat_hash_map<uint32_t, std::unique_ptr<Region>> windows_;  // by context
  CompletionQueue completions_;
  Transmit transmit_;
  Receive receive_;
};

// Bounds the requested options, so that the endpoint allocates no unreasonable amount of memory.
// kInvalidArgument if receives, sends or segments are zero.
absl::StatusOr<EndpointOptions> ClampOptions(const EndpointOptions& options);

}  // namespace dafs::dat::iwarp
