// The identity that a client has proven. It decides which clients are the same one: another
// principal never joins, replaces or inherits a client.
// Spec: 3.1.1.3.
//
// Values; any thread.
#pragma once

#include <array>
#include <cstdint>

#include "server/store/objects/export.h"
#include "wire/protocol/constants.h"

namespace dafs::server {

struct Principal {
  enum class Proof : uint32_t {
    kUnrecorded = 0,  // in files of versions that did not record it
    kAddress = 1,     // none but the address
    kTls = 2,         // TLS without a certificate of the client: only that it is encrypted
    kCertificate = 3,
    kKerberos = 4,
  };
  using NameHash = std::array<uint8_t, 32>;

  wire::AuthType method = wire::AuthType::kNone;
  PeerAddress host;
  Proof proof = Proof::kAddress;
  // SHA-256 of the Kerberos principal, or of the names in the certificate; zero without.
  NameHash name_hash = {};

  bool has_name() const { return name_hash != NameHash(); }

  // Whether the client proves as much as `other`, and under the same name. A client keeps its name
  // when its address changes.
  bool ProvesTheSame(const Principal& other) const;
  // The same principal. Without a name that is its host.
  friend bool operator==(const Principal& a, const Principal& b) {
    return a.ProvesTheSame(b) && (a.has_name() || a.host == b.host);
  }
};

// The principal at the other end of a connection, authenticated with `method`.
Principal PrincipalOf(wire::AuthType method, const Peer& peer);

// For messages: "its address", "TLS", "a certificate", "Kerberos".
const char* NameOf(Principal::Proof proof);

}  // namespace dafs::server
