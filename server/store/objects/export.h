// One directory that `dafsd` exports, its options, and the clients that it admits.
// `--export /NAME=DIR[,ro|rw][,root_squash|no_root_squash|all_squash][,anonuid=N][,anongid=N]
// [,secure|insecure][,clients=CIDR ...][,xprtsec=none:tls:mtls][,certs=NAME
// ...][,sec=sys:krb5:krb5p:text]
// [,principals=NAME@REALM|NAME ...][,handles=lasting][,changed_by=clients|anyone]`; all but certs,
// principals, handles and changed_by mean what they mean in exports(5).
// Values; usable from any thread.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/objects/failover_location.h"
#include "wire/dat/tls.h"
#include "wire/protocol/status.h"

namespace dafs::server {

// The address of a client: 16 bytes of IPv6, IPv4 as ::ffff:a.b.c.d.
struct PeerAddress {
  std::array<uint8_t, 16> bytes{};

  // Converts an AF_INET or AF_INET6 address. Any other family gives ::, which only ::/0 admits.
  static PeerAddress FromSockaddr(const sockaddr_storage& address);
  // Parses "192.0.2.1" or "2001:db8::1" (with or without a %scope, which is ignored).
  static absl::StatusOr<PeerAddress> Parse(std::string_view text);
  std::string ToString() const;  // in the form that Parse accepts
  bool is_v4() const;

  friend bool operator==(const PeerAddress&, const PeerAddress&) = default;
};

// Where a request came from: the address, the class of the port, and what TLS and Kerberos have
// proven.
struct Peer {
  PeerAddress address;
  // The client's port is below 1024, which on its machine requires privilege.
  bool reserved_port = false;

  // Null: the connection has no TLS. Shared by the connection and its requests.
  std::shared_ptr<const dat::TlsPeer> tls = nullptr;
  // The proven name of the session: a Kerberos principal, "alice@EXAMPLE.COM", or the name that a
  // password belongs to, "alice", which has no '@'. Null: neither. Shared likewise.
  std::shared_ptr<const std::string> principal = nullptr;

  friend bool operator==(const Peer& a, const Peer& b) {
    const bool same_tls = a.tls == nullptr || b.tls == nullptr ? a.tls == b.tls : *a.tls == *b.tls;
    const bool same_principal = a.principal == nullptr || b.principal == nullptr
                                    ? a.principal == b.principal
                                    : *a.principal == *b.principal;
    return a.address == b.address && a.reserved_port == b.reserved_port && same_tls &&
           same_principal;
  }
};

// A block of addresses, "192.0.2.0/24", "2001:db8::/32" or one address.
struct Cidr {
  PeerAddress base;
  int prefix_bits = 128;  // of the 128; an IPv4 prefix counts from bit 96

  static absl::StatusOr<Cidr> Parse(std::string_view text);
  bool Contains(const PeerAddress& address) const;

  friend bool operator==(const Cidr&, const Cidr&) = default;
};

// xprtsec=: which protection of connections an export takes. Bits.
enum Xprtsec : uint8_t {
  kXprtsecNone = 1,  // no TLS
  kXprtsecTls = 2,   // TLS
  kXprtsecMtls = 4,  // TLS with a certificate of the client
  kXprtsecAll = 7,
};

// sec=: how clients of an export authenticate. Bits.
enum Sec : uint8_t {
  kSecSys = 1,    // by address and port
  kSecKrb5 = 2,   // by Kerberos
  kSecKrb5p = 4,  // by Kerberos over TLS
  kSecText = 8,   // by name and password, over TLS
};

// Which callers become the anonymous user.
enum class Squash : uint8_t {
  kRoot,  // uid 0 and gid 0 become the anonymous ones
  kNone,
  kAll,  // all callers become anonymous
};

// One exported directory.
struct Export {
  std::string name;       // absolute, normal: "/", "/a", "/a/b"
  std::string directory;  // absolute path on this machine
  bool read_only = false;
  Squash squash = Squash::kRoot;
  uint32_t anonuid = 65534;
  uint32_t anongid = 65534;
  bool insecure = false;      // also admits clients without a reserved port
  std::vector<Cidr> clients;  // empty: all clients
  uint8_t xprtsec = kXprtsecAll;
  // A certificate of the client must have one of these names; "*.example.org" stands for one more
  // label. Empty: any certificate that the server accepts.
  std::vector<std::string> certs;
  uint8_t sec = kSecSys;
  // A principal must fit one of these (server/store/objects/principal_pattern.h), or be the same
  // name if it has proven that by a password. Empty: any.
  std::vector<std::string> principals;
  // handles=lasting: the administrator states that FUSE file systems in the export have persistent
  // handles.
  bool lasting_handles = false;
  // changed_by=clients: the administrator states that only clients of this server change files in
  // the export. Then a response may carry kSpcondOnlyClients (WIRE 9.6).
  bool only_clients_change = false;
  // Where else it is served if this server fails (5.3).
  std::vector<FailoverLocation> failover;
  // A reload has taken it away: it admits no client.
  bool removed = false;

  // Why the export does not admit a peer.
  enum class Misfit : uint8_t {
    kNone,
    kAddress,
    kNeedsTls,
    kRefusesTls,
    kNeedsCertificate,
    kCertificate,  // not one of `certs`
    kPort,         // not reserved
    kNeedsKerberos,
    kRefusesKerberos,
    kPrincipal,      // not one of `principals`
    kNeedsPassword,  // and takes no Kerberos
    kRefusesPassword,
  };
  Misfit MisfitOf(const Peer& peer) const;
  // kAcces: it does not admit the identity of the peer (its address, certificate or principal), and
  // is hidden from it. kWrongSec: it may admit the peer with another protection or authentication.
  wire::DafsStatus Admission(const Peer& peer) const;
  bool Admits(const Peer& peer) const { return Admission(peer) == wire::DafsStatus::kOk; }
  // Whether it admits some principal at `peer`, whose principal is not known yet.
  bool MayAdmitByKerberos(const Peer& peer) const;
  // The same for a name with a password.
  bool MayAdmitByPassword(const Peer& peer) const;
  // The name's parts, outermost first; none for "/".
  std::vector<std::string_view> Components() const;

  friend bool operator==(const Export&, const Export&) = default;

 private:
  Misfit ConnectionMisfit(const Peer& peer) const;
  Misfit ProtectionMisfit(const Peer& peer) const;
  Misfit PrincipalMisfit(const Peer& peer) const;
  Misfit PasswordMisfit(const Peer& peer) const;
};

// Parses the argument of `--export`. The clients option may be given several times, or once with
// blocks separated by '+' (a comma ends the option). Errors are kInvalidArgument with a message for
// the administrator: "export /a=/srv/a: option 'rx' is unknown".
absl::StatusOr<Export> ParseExport(std::string_view text);

// The words of `xprtsec`, as the option has them: "tls:mtls".
std::string XprtsecText(uint8_t xprtsec);

// The words of `sec`, as the option has them: "sys:krb5".
std::string SecText(uint8_t sec);

// Checks that a server with these certificates, and with Kerberos and passwords or without, can
// serve the exports. Errors as of ParseExport.
absl::Status CheckProtection(const std::vector<Export>& exports, const dat::TlsOptions& tls,
                             bool has_kerberos, bool has_passwords = false);

// Checks that `exports` form one name space: at least one export, no name twice, none inside
// another. Errors: kInvalidArgument, naming both exports.
absl::Status CheckExports(const std::vector<Export>& exports);

}  // namespace dafs::server
