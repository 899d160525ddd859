// Authentication by an exchange of tokens, as in GSS-API (RFC 2743). The interface: sessions do
// not depend on the library that makes the tokens. wire/auth/gss is the implementation by Kerberos;
// a program with libdafs may have its own.
// Spec: 3.1.1.1.1, 6.2.2; FAST03 4 (callbacks of the application).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dafs::auth {

// One side of one exchange, and then the established context. One call at a time, from any thread.
// A client that ends does not wait long for a Step that blocks. So an exchange owns what it uses.
class Exchange {
 public:
  Exchange() = default;
  virtual ~Exchange() = default;  // destroys the context
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  enum class Progress : uint8_t { kDone, kContinues };
  // Takes the peer's token (empty for the first step of the initiator) and sets `*answer` to the
  // token for the peer, which is empty if the peer needs none. kContinues: expects another token.
  // May block on files, the network and name services. After an error the exchange is over:
  // kUnauthenticated: the token or what it proves is refused. kFailedPrecondition: this side lacks
  // credentials. kUnavailable: a later try may succeed. Messages name the remedy, and no secret.
  virtual absl::StatusOr<Progress> Step(std::string_view token, std::string* answer) = 0;

  // After kDone.
  // The peer, unambiguously: "alice@EXAMPLE.COM".
  virtual const std::string& peer_name() const = 0;
  // Acceptor: the user of this machine that the peer is; empty: none.
  virtual const std::string& user() const = 0;
  // How long the context remains valid; absl::InfiniteDuration() if that has no end.
  virtual absl::Duration lifetime() const = 0;
  // The codes of the last step, for messages on the wire (6.1.9).
  virtual uint32_t major_status() const = 0;
  virtual uint32_t minor_status() const = 0;
};

// Begins exchanges as the client. Thread-safe.
class Initiator {
 public:
  Initiator() = default;
  virtual ~Initiator() = default;
  Initiator(const Initiator&) = delete;
  Initiator& operator=(const Initiator&) = delete;

  // `channel_binding`: of the TLS connection that carries the tokens (dat::TlsPeer); empty: none.
  // Does not block.
  virtual std::unique_ptr<Exchange> Begin(const std::string& channel_binding) = 0;
};

// Begins exchanges as the server. Thread-safe.
class Acceptor {
 public:
  Acceptor() = default;
  virtual ~Acceptor() = default;
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // As Initiator::Begin. A peer that did not use a nonempty binding is refused.
  virtual std::unique_ptr<Exchange> Begin(const std::string& channel_binding) = 0;
  // The mechanism for SECINFO: DER contents octets.
  virtual std::string_view mechanism() const = 0;
};

}  // namespace dafs::auth
