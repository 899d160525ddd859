#include "client/names/ldap_service.h"

#include <lber.h>
#include <ldap.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/names/text_lines.h"
#include "runtime/status_macros.h"

namespace dafs::names {
namespace {

constexpr ber_len_t kMostReplyBytes = 1 << 20;
constexpr size_t kMostLdapValueBytes = 4096;

constexpr char kType[] = "datTransportType";
constexpr char kHostname[] = "datTransportHostname";
constexpr char kQualifier[] = "datTransportConnectionQualifier";
constexpr char kDirectoryPath[] = "dafsDirectoryPath";
constexpr char kProtocolVersion[] = "dafsProtocolVersion";

// Owns the messages that a search returned.
struct LdapResult {
  LDAPMessage* chain = nullptr;
  ~LdapResult() {
    if (chain != nullptr) ldap_msgfree(chain);
  }
};

absl::Status LdapError(const std::string& what, int error) {
  const std::string text = absl::StrCat(what, ": ", ldap_err2string(error));
  switch (error) {
    case LDAP_SERVER_DOWN:
    case LDAP_CONNECT_ERROR:
    case LDAP_TIMEOUT:
    case LDAP_TIMELIMIT_EXCEEDED:
    case LDAP_BUSY:
    case LDAP_UNAVAILABLE:
    case LDAP_DECODING_ERROR:
      return absl::UnavailableError(text);
    default:
      return absl::FailedPreconditionError(text);
  }
}

class LdapConnection {
 public:
  LdapConnection() = default;
  ~LdapConnection() {
    if (ldap_ != nullptr) ldap_unbind_ext_s(ldap_, nullptr, nullptr);
  }
  LdapConnection(const LdapConnection&) = delete;
  LdapConnection& operator=(const LdapConnection&) = delete;

  absl::Status Open(const NamesConf& conf) {
    const char* const uri = conf.ldap_uri.empty() ? nullptr : conf.ldap_uri.c_str();
    if (int error = ldap_initialize(&ldap_, uri); error != LDAP_SUCCESS) {
      return absl::FailedPreconditionError(
          absl::StrCat("ldap-uri = ", conf.ldap_uri, ": ", ldap_err2string(error)));
    }
    const int version = LDAP_VERSION3;
    wait_ = absl::ToTimeval(conf.timeout / 3);  // to connect, and for each of two searches
    ldap_set_option(ldap_, LDAP_OPT_PROTOCOL_VERSION, &version);
    ldap_set_option(ldap_, LDAP_OPT_NETWORK_TIMEOUT, &wait_);
    ldap_set_option(ldap_, LDAP_OPT_TIMEOUT, &wait_);
    // Otherwise a server could send this client to any other.
    ldap_set_option(ldap_, LDAP_OPT_REFERRALS, LDAP_OPT_OFF);
    Sockbuf* socket = nullptr;
    if (ldap_get_option(ldap_, LDAP_OPT_SOCKBUF, &socket) == LDAP_OPT_SUCCESS &&
        socket != nullptr) {
      ber_len_t most = kMostReplyBytes;
      ber_sockbuf_ctrl(socket, LBER_SB_OPT_SET_MAX_INCOMING, &most);
    }
    base_ = conf.ldap_base;
    char* base = nullptr;
    if (base_.empty() && ldap_get_option(ldap_, LDAP_OPT_DEFBASE, &base) == LDAP_OPT_SUCCESS &&
        base != nullptr) {
      base_ = base;
      ldap_memfree(base);
    }
    return Bind(conf);
  }

  const std::string& base() const { return base_; }
  LDAP* get() const { return ldap_; }

  // Returns the error of LDAP.
  int Search(const std::string& base, int scope, const std::string& filter,
             const char* const* names, int most, LdapResult& result) {
    return ldap_search_ext_s(ldap_, base.c_str(), scope, filter.c_str(), const_cast<char**>(names),
                             0, nullptr, nullptr, &wait_, most, &result.chain);
  }

 private:
  absl::Status Bind(const NamesConf& conf) {
    if (conf.ldap_bind_dn.empty()) return absl::OkStatus();
    if (!conf.ldap_uri.starts_with("ldaps://") && !conf.ldap_uri.starts_with("ldapi://")) {
      return absl::FailedPreconditionError(
          "ldap-bind-dn: a password is sent to ldaps:// and ldapi:// only; set ldap-uri");
    }
    ASSIGN_OR_RETURN(std::string password, ReadTextFile(conf.ldap_password_file));
    while (password.ends_with("\n")) password.pop_back();
    berval secret = {password.size(), password.data()};
    const int error = ldap_sasl_bind_s(ldap_, conf.ldap_bind_dn.c_str(), LDAP_SASL_SIMPLE, &secret,
                                       nullptr, nullptr, nullptr);
    explicit_bzero(password.data(), password.size());
    return error == LDAP_SUCCESS ? absl::OkStatus() : LdapError(conf.ldap_bind_dn, error);
  }

  LDAP* ldap_ = nullptr;
  timeval wait_ = {};
  std::string base_;
};

std::string DnOf(LDAP* ldap, LDAPMessage* entry) {
  char* const dn = ldap_get_dn(ldap, entry);
  if (dn == nullptr) return "";
  std::string text = dn;
  ldap_memfree(dn);
  return text;
}

absl::StatusOr<std::string> SingleValue(LDAP* ldap, LDAPMessage* entry, const char* name) {
  berval** const values = ldap_get_values_len(ldap, entry, name);
  if (values == nullptr) return std::string();
  std::string value;
  absl::Status bad;
  if (ldap_count_values_len(values) != 1) {
    bad = absl::InvalidArgumentError(absl::StrCat(name, " has more than one value"));
  } else if (values[0]->bv_len > kMostLdapValueBytes) {
    bad = absl::InvalidArgumentError(absl::StrCat(name, " has more than 4096 bytes"));
  } else {
    value.assign(values[0]->bv_val, values[0]->bv_len);
  }
  ldap_value_free_len(values);
  if (!bad.ok()) return bad;
  return value;
}

absl::StatusOr<Location> LocationOfEntry(LDAP* ldap, LDAPMessage* entry) {
  LdapValues values;
  for (const auto& [name, value] :
       {std::pair(kType, &values.type), std::pair(kHostname, &values.host),
        std::pair(kQualifier, &values.qualifier), std::pair(kDirectoryPath, &values.path),
        std::pair(kProtocolVersion, &values.version)}) {
    ASSIGN_OR_RETURN(*value, SingleValue(ldap, entry, name));
  }
  return LocationOf(values);
}

absl::StatusOr<std::vector<Located>> LocationsBelow(LdapConnection& ldap, const std::string& dn) {
  static constexpr const char* kAttributes[] = {kType,          kHostname,        kQualifier,
                                                kDirectoryPath, kProtocolVersion, nullptr};
  LdapResult result;
  const int error = ldap.Search(dn, LDAP_SCOPE_ONELEVEL, "(objectClass=dafsLocation)", kAttributes,
                                static_cast<int>(kMostLocations) + 1, result);
  const int count = result.chain == nullptr ? 0 : ldap_count_entries(ldap.get(), result.chain);
  if (error == LDAP_SIZELIMIT_EXCEEDED || count > static_cast<int>(kMostLocations)) {
    return absl::InvalidArgumentError(absl::StrCat(dn, ": more than 64 locations"));
  }
  if (error != LDAP_SUCCESS) return LdapError(dn, error);
  std::vector<std::pair<std::string, Located>> found;
  for (LDAPMessage* entry = ldap_first_entry(ldap.get(), result.chain); entry != nullptr;
       entry = ldap_next_entry(ldap.get(), entry)) {
    std::string child = DnOf(ldap.get(), entry);
    absl::StatusOr<Location> location = LocationOfEntry(ldap.get(), entry);
    if (!location.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(child, ": ", location.status().message()));
    }
    found.emplace_back(std::move(child), Located{*std::move(location), {}, {}});
  }
  // LDAP has no order of entries.
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Located> all;
  all.reserve(found.size());
  for (auto& [child, located] : found) all.push_back(std::move(located));
  if (all.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(dn, ": no entry of class dafsLocation below it"));
  }
  return all;
}

}  // namespace

std::string NameFilter(const std::string& name) {
  std::string escaped;
  for (const char c : name) {
    if (std::strchr("*()\\", c) != nullptr) {  // also NUL
      constexpr char kDigits[] = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      escaped.append(1, '\\').append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
    } else {
      escaped.append(1, c);
    }
  }
  return absl::StrCat("(&(objectClass=dafsNameSpaceEntry)(dafsName=", escaped, "))");
}

absl::StatusOr<Location> LocationOf(const LdapValues& values) {
  const auto bad = [](const char* name, const absl::Status& status) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", status.message()));
  };
  Location location;
  location.transport = absl::CHexEscape(values.type.substr(0, 64));
  location.version = absl::CHexEscape(values.version.substr(0, 64));
  location.host = values.host;
  if (absl::Status host = CheckHost(values.host); !host.ok()) return bad(kHostname, host);
  absl::StatusOr<std::string> path = CheckPath(values.path);
  if (!path.ok()) return bad(kDirectoryPath, path.status());
  location.path = *std::move(path);
  // Of another transport, it is in words of its own.
  if (location.transport != kIwarp && location.transport != kRdma) return location;
  absl::StatusOr<uint16_t> port = ParseQualifier(values.qualifier);
  if (!port.ok()) return bad(kQualifier, port.status());
  location.port = *port;
  return location;
}

absl::StatusOr<std::vector<Located>> AskLdap(const NamesConf& conf, const std::string& name) {
  LdapConnection ldap;
  RETURN_IF_ERROR(ldap.Open(conf));
  if (ldap.base().empty()) {
    return absl::FailedPreconditionError("no base to search; set ldap-base");
  }
  static constexpr const char* kNone[] = {LDAP_NO_ATTRS, nullptr};
  LdapResult result;
  const int error =
      ldap.Search(ldap.base(), LDAP_SCOPE_SUBTREE, NameFilter(name), kNone, 2, result);
  const int count = result.chain == nullptr ? 0 : ldap_count_entries(ldap.get(), result.chain);
  if (error == LDAP_SIZELIMIT_EXCEEDED || count > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than one entry below ", ldap.base(), " has the name"));
  }
  if (error != LDAP_SUCCESS) return LdapError(ldap.base(), error);
  LDAPMessage* const entry = ldap_first_entry(ldap.get(), result.chain);
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("no entry below ", ldap.base(), " has the name"));
  }
  return LocationsBelow(ldap, DnOf(ldap.get(), entry));
}

}  // namespace dafs::names
