#include "server/clients/principal.h"

#include <openssl/evp.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/check.h"

namespace dafs::server {
namespace {

// Names do not contain NUL (wire/dat/tls/certificates.h, wire/auth/gss/kerberos.cc), so no two
// lists have the same text.
Principal::NameHash HashOf(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text.append(name).push_back('\0');
  Principal::NameHash hash = {};
  unsigned int size = 0;
  const bool is_made =
      EVP_Digest(text.data(), text.size(), hash.data(), &size, EVP_sha256(), nullptr) == 1;
  DAFS_CHECK(is_made && size == hash.size(), "libcrypto has no SHA-256");
  return hash;
}

}  // namespace

bool Principal::ProvesTheSame(const Principal& other) const {
  if (method != other.method) return false;
  if (proof == Proof::kUnrecorded || other.proof == Proof::kUnrecorded) return true;
  return proof == other.proof && name_hash == other.name_hash;
}

Principal PrincipalOf(wire::AuthType method, const Peer& peer) {
  Principal principal{.method = method, .host = peer.address};
  if (peer.principal != nullptr) {
    principal.proof =
        method == wire::AuthType::kText ? Principal::Proof::kPassword : Principal::Proof::kKerberos;
    principal.name_hash = HashOf({*peer.principal});
    return principal;
  }
  if (peer.tls == nullptr) return principal;
  if (!peer.tls->has_certificate) {
    principal.proof = Principal::Proof::kTls;
  } else {
    principal.proof = Principal::Proof::kCertificate;
    if (!peer.tls->names.empty()) principal.name_hash = HashOf(peer.tls->names);
  }
  return principal;
}

const char* NameOf(Principal::Proof proof) {
  switch (proof) {
    case Principal::Proof::kUnrecorded:
    case Principal::Proof::kAddress:
      return "its address";
    case Principal::Proof::kTls:
      return "TLS";
    case Principal::Proof::kCertificate:
      return "a certificate";
    case Principal::Proof::kKerberos:
      return "Kerberos";
    case Principal::Proof::kPassword:
      return "a password";
  }
  return "its address";
}

}  // namespace dafs::server
