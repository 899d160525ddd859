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
    kAddress = 1,     // only its address
    kTls = 2,         // TLS without a client certificate: only that it is encrypted
    kCertificate = 3,
    kKerberos = 4,
    kPassword = 5,
  };
  using NameHash = std::array<uint8_t, 32>;
  static constexpr NameHash kNoName = {};

  wire::AuthType method = wire::AuthType::kNone;
  PeerAddress host;
  Proof proof = Proof::kAddress;
  // SHA-256 of the Kerberos principal, of the name with the password, or of the names in the
  // certificate; zero without.
  NameHash name_hash = {};

  bool has_name() const { return name_hash != kNoName; }

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

// The members of a record in a file that are its owner's principal. Files of versions that did not
// record `proof` and `name_hash` have zeros there.
template <class Record>
Principal PrincipalIn(const Record& record) {
  return {.method = record.method,
          .host = record.host,
          .proof = record.proof,
          .name_hash = record.name_hash};
}
template <class Record>
void PutPrincipal(const Principal& principal, Record& record) {
  record.method = principal.method;
  record.host = principal.host;
  record.proof = principal.proof;
  record.name_hash = principal.name_hash;
}

// For messages: "its address", "TLS", "a certificate", "Kerberos", "a password".
const char* NameOf(Principal::Proof proof);

}  // namespace dafs::server
