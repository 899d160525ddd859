#include "server/store/objects/export.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"
#include "server/store/objects/principal_pattern.h"

namespace dafs::server {
namespace {

PeerAddress Mapped(const in_addr& v4) {
  PeerAddress a;
  a.bytes[10] = a.bytes[11] = 0xff;
  std::memcpy(&a.bytes[12], &v4, 4);
  return a;
}

absl::Status Bad(std::string_view what, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("export ", Text(what), ": ", Text(why)));
}

// Checks the name and its parts: "/", "/a", "/a/b".
absl::Status CheckName(std::string_view text, std::string_view name) {
  if (name.empty() || name[0] != '/') return Bad(text, "the name must begin with '/'");
  if (name == "/") return absl::OkStatus();
  for (absl::string_view part : absl::StrSplit(Text(name.substr(1)), '/')) {
    if (part.empty()) return Bad(text, "the name has an empty part");
    if (part == "." || part == "..") return Bad(text, "the name may not contain '.' or '..'");
    if (part.size() > 255) return Bad(text, "a part of the name is longer than 255 bytes");
  }
  return absl::OkStatus();
}

absl::Status ParseId(std::string_view text, std::string_view key, std::string_view value,
                     uint32_t* id) {
  if (!absl::SimpleAtoi(Text(value), id) || *id == ~0u) {
    return Bad(text, absl::StrCat(Text(key), " needs a number of 0 to 4294967294, not '",
                                  Text(value), "'"));
  }
  return absl::OkStatus();
}

constexpr std::pair<absl::string_view, Xprtsec> kXprtsecWords[] = {
    {"none", kXprtsecNone}, {"tls", kXprtsecTls}, {"mtls", kXprtsecMtls}};

absl::Status ParseXprtsec(std::string_view text, std::string_view value, Export* result) {
  result->xprtsec = 0;
  for (absl::string_view word : absl::StrSplit(Text(value), ':')) {
    const auto* known = std::find_if(std::begin(kXprtsecWords), std::end(kXprtsecWords),
                                     [word](const auto& one) { return one.first == word; });
    if (known == std::end(kXprtsecWords)) {
      return Bad(text, absl::StrCat("xprtsec= takes none, tls and mtls, separated by ':', not '",
                                    word, "'"));
    }
    result->xprtsec = static_cast<uint8_t>(result->xprtsec | known->second);
  }
  return absl::OkStatus();
}

// A name without a realm is proven by a password.
bool IsOfPassword(std::string_view principal) {
  return principal.find('@') == std::string_view::npos;
}

constexpr std::pair<absl::string_view, Sec> kSecWords[] = {
    {"sys", kSecSys}, {"krb5", kSecKrb5}, {"krb5p", kSecKrb5p}, {"text", kSecText}};

absl::Status ParseSec(std::string_view text, std::string_view value, Export* result) {
  result->sec = 0;
  for (absl::string_view word : absl::StrSplit(Text(value), ':')) {
    // There is no protection by signatures alone: what would have that is also encrypted.
    if (word == "krb5i") word = "krb5p";
    const auto* known = std::find_if(std::begin(kSecWords), std::end(kSecWords),
                                     [word](const auto& one) { return one.first == word; });
    if (known == std::end(kSecWords)) {
      return Bad(
          text, absl::StrCat("sec= takes sys, krb5, krb5i, krb5p and text, separated by ':', not '",
                             word, "'"));
    }
    result->sec = static_cast<uint8_t>(result->sec | known->second);
  }
  return absl::OkStatus();
}

absl::Status ParsePrincipals(std::string_view text, std::string_view value, Export* result) {
  for (absl::string_view pattern : absl::StrSplit(Text(value), '+')) {
    const absl::Status status =
        IsPasswordName(Std(pattern)) ? absl::OkStatus() : CheckPrincipalPattern(Std(pattern));
    if (!status.ok()) return Bad(text, absl::StrCat("principals=: ", status.message()));
    result->principals.emplace_back(pattern);
  }
  return absl::OkStatus();
}

// Names as they stand in certificates: letters, digits and "-._:", with "*." at most in front.
absl::Status ParseCerts(std::string_view text, std::string_view value, Export* result) {
  for (absl::string_view name : absl::StrSplit(Text(value), '+')) {
    absl::string_view plain = name;
    absl::ConsumePrefix(&plain, "*.");
    const bool is_name = !plain.empty() && std::all_of(plain.begin(), plain.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
             absl::string_view("-._:").find(c) != absl::string_view::npos;
    });
    if (!is_name) {
      return Bad(text, absl::StrCat("certs= takes names of certificates, separated by '+', not '",
                                    name, "'"));
    }
    result->certs.emplace_back(absl::AsciiStrToLower(name));
  }
  return absl::OkStatus();
}

// Whether a certificate's name is one that certs= has. "*." stands for one label.
bool NameFits(absl::string_view pattern, const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  if (!absl::ConsumePrefix(&pattern, "*.")) return lower == pattern;
  const size_t dot = lower.find('.');
  return dot != std::string::npos && dot > 0 && absl::string_view(lower).substr(dot + 1) == pattern;
}

absl::Status ParseOption(std::string_view text, std::string_view option, Export* result) {
  if (option == "ro") return result->read_only = true, absl::OkStatus();
  if (option == "rw") return result->read_only = false, absl::OkStatus();
  if (option == "secure") return result->insecure = false, absl::OkStatus();
  if (option == "insecure") return result->insecure = true, absl::OkStatus();
  if (option == "root_squash") return result->squash = Squash::kRoot, absl::OkStatus();
  if (option == "no_root_squash") return result->squash = Squash::kNone, absl::OkStatus();
  if (option == "all_squash") return result->squash = Squash::kAll, absl::OkStatus();
  const size_t equals = option.find('=');
  const std::string_view key = option.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : option.substr(equals + 1);
  if (key == "anonuid") return ParseId(text, key, value, &result->anonuid);
  if (key == "anongid") return ParseId(text, key, value, &result->anongid);
  if (key == "handles") {
    if (value != "lasting") {
      return Bad(text, absl::StrCat("handles= takes the word lasting, not '", Text(value), "'"));
    }
    result->lasting_handles = true;
    return absl::OkStatus();
  }
  if (key == "changed_by") {
    if (value != "clients" && value != "anyone") {
      return Bad(text,
                 absl::StrCat("changed_by= takes clients or anyone, not '", Text(value), "'"));
    }
    result->only_clients_change = value == "clients";
    return absl::OkStatus();
  }
  if (key == "xprtsec") return ParseXprtsec(text, value, result);
  if (key == "certs") return ParseCerts(text, value, result);
  if (key == "sec") return ParseSec(text, value, result);
  if (key == "principals") return ParsePrincipals(text, value, result);
  if (key == "failover") {
    const absl::Status status = ParseFailover(value, &result->failover);
    return status.ok() ? status : Bad(text, Std(status.message()));
  }
  if (key == "clients") {
    for (absl::string_view block : absl::StrSplit(Text(value), '+')) {
      absl::StatusOr<Cidr> cidr = Cidr::Parse(Std(block));
      if (!cidr.ok()) return Bad(text, Std(cidr.status().message()));
      result->clients.push_back(*cidr);
    }
    return absl::OkStatus();
  }
  return Bad(text, absl::StrCat("option '", Text(option), "' is unknown"));
}

}  // namespace

PeerAddress PeerAddress::FromSockaddr(const sockaddr_storage& address) {
  PeerAddress result;
  if (address.ss_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, &address, sizeof in);
    return Mapped(in.sin_addr);
  }
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 in6;
    std::memcpy(&in6, &address, sizeof in6);
    std::memcpy(result.bytes.data(), &in6.sin6_addr, 16);
  }
  return result;
}

absl::StatusOr<PeerAddress> PeerAddress::Parse(std::string_view text) {
  const std::string host(text.substr(0, text.find('%')));
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return Mapped(v4);
  PeerAddress result;
  if (inet_pton(AF_INET6, host.c_str(), result.bytes.data()) == 1) return result;
  return absl::InvalidArgumentError(absl::StrCat("'", Text(text), "' is not an IP address"));
}

bool PeerAddress::is_v4() const {
  return std::equal(bytes.begin(), bytes.begin() + 12, Mapped(in_addr()).bytes.begin());
}

std::string PeerAddress::ToString() const {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(is_v4() ? AF_INET : AF_INET6, &bytes[is_v4() ? 12 : 0], text, sizeof(text));
  return text;
}

absl::StatusOr<Cidr> Cidr::Parse(std::string_view text) {
  Cidr result;
  const size_t slash = text.find('/');
  ASSIGN_OR_RETURN(result.base, PeerAddress::Parse(text.substr(0, slash)));
  const bool v4 = text.substr(0, slash).find(':') == std::string_view::npos;
  const int most = v4 ? 32 : 128;
  int bits = most;
  if (slash != std::string_view::npos &&
      (!absl::SimpleAtoi(Text(text.substr(slash + 1)), &bits) || bits < 0 || bits > most)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Text(text), "' needs a prefix length of 0 to ", most, " after the '/'"));
  }
  result.prefix_bits = v4 ? 96 + bits : bits;
  for (int bit = result.prefix_bits; bit < 128; ++bit) {  // clears the host bits
    uint8_t& byte = result.base.bytes[static_cast<size_t>(bit / 8)];
    byte = static_cast<uint8_t>(byte & ~(0x80 >> (bit % 8)));
  }
  return result;
}

bool Cidr::Contains(const PeerAddress& address) const {
  const size_t whole = static_cast<size_t>(prefix_bits / 8);
  if (std::memcmp(base.bytes.data(), address.bytes.data(), whole) != 0) return false;
  if (prefix_bits % 8 == 0) return true;
  const auto mask = static_cast<uint8_t>(0xff << (8 - prefix_bits % 8));
  return (base.bytes[whole] & mask) == (address.bytes[whole] & mask);
}

wire::DafsStatus Export::Admission(const Peer& peer) const {
  switch (MisfitOf(peer)) {
    case Misfit::kNone:
      return wire::DafsStatus::kOk;
    case Misfit::kAddress:
    case Misfit::kCertificate:
    case Misfit::kPrincipal:
      return wire::DafsStatus::kAcces;
    default:
      return wire::DafsStatus::kWrongSec;
  }
}

Export::Misfit Export::MisfitOf(const Peer& peer) const {
  const Misfit misfit = ConnectionMisfit(peer);
  if (misfit != Misfit::kNone) return misfit;
  if (peer.principal != nullptr) {
    return IsOfPassword(*peer.principal) ? PasswordMisfit(peer) : PrincipalMisfit(peer);
  }
  if ((sec & kSecSys) == 0) {
    return (sec & (kSecKrb5 | kSecKrb5p)) != 0 ? Misfit::kNeedsKerberos : Misfit::kNeedsPassword;
  }
  return insecure || peer.reserved_port ? Misfit::kNone : Misfit::kPort;
}

// Its port proves nothing beside a principal. krb5p is Kerberos over TLS.
Export::Misfit Export::PrincipalMisfit(const Peer& peer) const {
  const uint8_t fits = peer.tls != nullptr ? kSecKrb5 | kSecKrb5p : kSecKrb5;
  if ((sec & fits) == 0) {
    return (sec & kSecKrb5p) != 0 ? Misfit::kNeedsTls : Misfit::kRefusesKerberos;
  }
  return principals.empty() || PrincipalFitsAny(principals, *peer.principal) ? Misfit::kNone
                                                                             : Misfit::kPrincipal;
}

Export::Misfit Export::PasswordMisfit(const Peer& peer) const {
  if ((sec & kSecText) == 0 || peer.tls == nullptr) return Misfit::kRefusesPassword;
  const bool is_named =
      std::find(principals.begin(), principals.end(), *peer.principal) != principals.end();
  return principals.empty() || is_named ? Misfit::kNone : Misfit::kPrincipal;
}

bool Export::MayAdmitByPassword(const Peer& peer) const {
  return (sec & kSecText) != 0 && peer.tls != nullptr && ConnectionMisfit(peer) == Misfit::kNone;
}

bool Export::MayAdmitByKerberos(const Peer& peer) const {
  const uint8_t fits = peer.tls != nullptr ? kSecKrb5 | kSecKrb5p : kSecKrb5;
  return (sec & fits) != 0 && ConnectionMisfit(peer) == Misfit::kNone;
}

Export::Misfit Export::ConnectionMisfit(const Peer& peer) const {
  if (removed) return Misfit::kAddress;
  const bool known =
      clients.empty() || std::any_of(clients.begin(), clients.end(),
                                     [&](const Cidr& c) { return c.Contains(peer.address); });
  if (!known) return Misfit::kAddress;
  if (xprtsec != kXprtsecAll || !certs.empty()) {
    const Misfit misfit = ProtectionMisfit(peer);
    if (misfit != Misfit::kNone) return misfit;
  }
  return Misfit::kNone;
}

// A client that has a certificate may also use what takes TLS without one.
Export::Misfit Export::ProtectionMisfit(const Peer& peer) const {
  if (peer.tls == nullptr) return (xprtsec & kXprtsecNone) != 0 ? Misfit::kNone : Misfit::kNeedsTls;
  if ((xprtsec & (kXprtsecTls | kXprtsecMtls)) == 0) return Misfit::kRefusesTls;
  if ((xprtsec & kXprtsecTls) != 0) return Misfit::kNone;
  if (!peer.tls->has_certificate) return Misfit::kNeedsCertificate;
  const auto fits = [&](const std::string& pattern) {
    return std::any_of(peer.tls->names.begin(), peer.tls->names.end(),
                       [&](const std::string& name) { return NameFits(pattern, name); });
  };
  return certs.empty() || std::any_of(certs.begin(), certs.end(), fits) ? Misfit::kNone
                                                                        : Misfit::kCertificate;
}

std::vector<std::string_view> Export::Components() const {
  std::vector<std::string_view> parts;
  if (name == "/") return parts;
  for (absl::string_view part : absl::StrSplit(Text(name).substr(1), '/')) {
    parts.push_back(Std(part));
  }
  return parts;
}

absl::StatusOr<Export> ParseExport(std::string_view text) {
  Export result;
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return Bad(text, "expected /NAME=DIR[,option ...]");
  result.name = text.substr(0, equals);
  RETURN_IF_ERROR(CheckName(text, result.name));
  std::vector<absl::string_view> rest = absl::StrSplit(Text(text.substr(equals + 1)), ',');
  result.directory = std::string(rest[0]);
  if (result.directory.empty() || result.directory[0] != '/') {
    return Bad(text, "the directory must be an absolute path");
  }
  for (size_t i = 1; i < rest.size(); ++i) {
    RETURN_IF_ERROR(ParseOption(text, Std(rest[i]), &result));
  }
  if (!result.principals.empty() && (result.sec & kSecSys) != 0) {
    return Bad(
        text, "principals= needs sec=krb5, sec=krb5p or sec=text: other clients have no principal");
  }
  for (const std::string& each : result.principals) {
    if (IsOfPassword(each) && (result.sec & kSecText) == 0) {
      return Bad(text, absl::StrCat("principals=: ", each,
                                    " is not a principal; give NAME@REALM, or sec=text for names "
                                    "with a password"));
    }
  }
  if (!result.certs.empty()) {
    if (result.xprtsec == kXprtsecAll) result.xprtsec = kXprtsecMtls;
    if (result.xprtsec != kXprtsecMtls) {
      return Bad(text, "certs= needs xprtsec=mtls: other clients have no certificate");
    }
  }
  return result;
}

std::string XprtsecText(uint8_t xprtsec) {
  std::string text;
  for (const auto& [word, bit] : kXprtsecWords) {
    if ((xprtsec & bit) != 0) absl::StrAppend(&text, text.empty() ? "" : ":", word);
  }
  return text;
}

std::string SecText(uint8_t sec) {
  std::string text;
  for (const auto& [word, bit] : kSecWords) {
    if ((sec & bit) != 0) absl::StrAppend(&text, text.empty() ? "" : ":", word);
  }
  return text;
}

absl::Status CheckProtection(const std::vector<Export>& exports, const dat::TlsOptions& tls,
                             bool has_kerberos, bool has_passwords) {
  for (const Export& one : exports) {
    const std::string what = absl::StrCat(one.name, "=", one.directory);
    if (one.sec == kSecText && !has_passwords) {
      return Bad(what, "sec=text needs the passwords of its users; give --password-file");
    }
    if ((one.sec & kSecText) != 0 && tls.cert_file.empty()) {
      return Bad(what,
                 "sec=text needs a certificate of this server; give --tls-cert and --tls-key");
    }
    if ((one.sec & (kSecSys | kSecText)) == 0 && !has_kerberos) {
      return Bad(what, absl::StrCat("sec=", SecText(one.sec),
                                    " needs the keys of this server; give --keytab"));
    }
    if (one.sec == kSecKrb5p && tls.cert_file.empty()) {
      return Bad(what,
                 "sec=krb5p needs a certificate of this server; give --tls-cert and --tls-key");
    }
    if ((one.xprtsec & kXprtsecNone) != 0) continue;
    if (tls.cert_file.empty()) {
      return Bad(what, absl::StrCat("xprtsec=", XprtsecText(one.xprtsec),
                                    " needs a certificate of this server; give --tls-cert and "
                                    "--tls-key"));
    }
    if (one.xprtsec == kXprtsecMtls && tls.ca_file.empty()) {
      return Bad(what, "xprtsec=mtls needs the CAs of the clients; give --tls-ca");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckExports(const std::vector<Export>& exports) {
  if (exports.empty()) return absl::InvalidArgumentError("nothing to export: give --export");
  for (size_t i = 0; i < exports.size(); ++i) {
    RETURN_IF_ERROR(CheckName(exports[i].name, exports[i].name));
    for (size_t j = 0; j < exports.size(); ++j) {
      const std::string& outer = exports[i].name;
      const std::string& inner = exports[j].name;
      if (i == j) continue;
      if (outer == inner) return Bad(outer, "the name is given twice");
      const std::string prefix = outer == "/" ? outer : outer + "/";
      if (inner.compare(0, prefix.size(), prefix) == 0) {
        return Bad(inner, absl::StrCat("it would lie inside export ", outer,
                                       "; give them names side by side"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace dafs::server
