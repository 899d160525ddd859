#include "tests/wire/dat/tls/certificates.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/check.h"
#include "wire/dat/tls/certificates.h"

namespace dafs::dat::testing {
namespace {

std::string NewFolder() {
  std::string folder = "/tmp/dafs-certificates-XXXXXX";
  DAFS_CHECK(mkdtemp(folder.data()) != nullptr, "mkdtemp");
  return folder;
}

void AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  DAFS_CHECK(extension != nullptr, "bad extension");
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* NewCertificate(EVP_PKEY* key, const std::string& subject, absl::Duration from,
                     absl::Duration to) {
  static long serial = 0;
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), absl::ToInt64Seconds(from));
  X509_gmtime_adj(X509_getm_notAfter(certificate), absl::ToInt64Seconds(to));
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(subject.c_str()), -1, -1, 0);
  return certificate;
}

X509* NewCa(EVP_PKEY* key, const std::string& name) {
  X509* ca = NewCertificate(key, name, -absl::Hours(24), absl::Hours(24));
  X509_set_issuer_name(ca, X509_get_subject_name(ca));
  AddExtension(ca, ca, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(ca, ca, NID_key_usage, "critical,keyCertSign,cRLSign");
  DAFS_CHECK(X509_sign(ca, key, EVP_sha256()) > 0, "sign");
  return ca;
}

void WriteCertificate(const std::string& path, X509* certificate) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  DAFS_CHECK(file != nullptr && PEM_write_X509(file, certificate) == 1, "write");
  std::fclose(file);
}

}  // namespace

Certificates::Certificates()
    : folder_(NewFolder()),
      key_(EVP_EC_gen("P-256")),
      ca_(NewCa(key_, "dafs test CA")),
      other_ca_(NewCa(key_, "another CA")) {
  WriteCertificate(ca(), ca_);
  std::FILE* file = std::fopen(key().c_str(), "w");
  DAFS_CHECK(file != nullptr && chmod(key().c_str(), 0600) == 0 &&
                 PEM_write_PrivateKey(file, key_, nullptr, nullptr, 0, nullptr, nullptr) == 1,
             "write");
  std::fclose(file);
}

Certificates::~Certificates() {
  X509_free(ca_);
  X509_free(other_ca_);
  EVP_PKEY_free(key_);
  std::filesystem::remove_all(folder_);
}

std::string Certificates::Issue(const std::string& file, const Wish& wish) {
  X509* const issuer = wish.by_another_ca ? other_ca_ : ca_;
  X509* certificate = NewCertificate(key_, "subject", wish.from, wish.to);
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  std::string names;
  for (const std::string& name : wish.names) {
    absl::StrAppend(&names, names.empty() ? "" : ",",
                    tls::IsNumericAddress(name) ? "IP:" : "DNS:", name);
  }
  if (!names.empty()) AddExtension(certificate, issuer, NID_subject_alt_name, names);
  DAFS_CHECK(X509_sign(certificate, key_, EVP_sha256()) > 0, "sign");
  WriteCertificate(PathOf(file), certificate);
  X509_free(certificate);
  return PathOf(file);
}

TlsOptions Certificates::Server() {
  return {.is_server = true,
          .ca_file = ca(),
          .cert_file = Issue("server.pem", {.names = {"localhost", "127.0.0.1"}}),
          .key_file = key()};
}

TlsOptions Certificates::Client() { return {.server_name = "127.0.0.1", .ca_file = ca()}; }

TlsOptions Certificates::ClientWithCertificate() {
  TlsOptions options = Client();
  options.cert_file = Issue("client.pem", {.names = {"client.example"}});
  options.key_file = key();
  return options;
}

}  // namespace dafs::dat::testing
