#include "wire/dat/tls/certificates.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/files/unique_fd.h"
#include "runtime/status_macros.h"

namespace dafs::dat::tls {
namespace {

constexpr size_t kMostKeyBytes = 64 << 10;

// The reason of OpenSSL's failure. Empties its queue.
std::string TakeReason() {
  const unsigned long error = ERR_peek_error();  // the first: the cause of those that follow
  const char* reason = ERR_SYSTEM_ERROR(error) ? std::strerror(ERR_GET_REASON(error))
                                               : ERR_reason_error_string(error);
  std::string text = reason != nullptr ? reason : "";
  ERR_clear_error();
  return text.empty() ? "unknown" : text;
}

absl::Status Bad(absl::string_view what, const std::string& file, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("TLS ", what, " ", file, ": ", why));
}

// Reads through one descriptor, so that what is checked is what is read.
absl::StatusOr<std::string> ReadKeyFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info = {};
  if (!fd.valid() || fstat(fd.get(), &info) != 0) return Bad("key", path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return Bad("key", path, "not a regular file");
  if ((info.st_mode & (S_IWGRP | S_IRWXO)) != 0) {
    return Bad("key", path, absl::StrCat("other users may access it; run chmod 600 ", path));
  }
  if (info.st_uid != 0 && info.st_uid != geteuid()) {
    return Bad("key", path,
               absl::StrCat("it belongs to user ", info.st_uid,
                            "; give it to root, or to the user "
                            "of this program, with chown"));
  }
  std::string text(kMostKeyBytes, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(fd.get(), &text[size], text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Bad("key", path, std::strerror(errno));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size == text.size()) return Bad("key", path, "too long for a key");
  text.resize(size);
  return text;
}

// Without this, OpenSSL asks the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

absl::Status LoadKey(SSL_CTX* context, const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadKeyFile(path));
  const BioHandle bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  const KeyHandle key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  OPENSSL_cleanse(text.data(), text.size());
  if (key == nullptr) {
    ERR_clear_error();
    return Bad("key", path, "not a private key in PEM without a password");
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    return Bad("key", path, absl::StrCat("it is not the key of the certificate: ", TakeReason()));
  }
  return absl::OkStatus();
}

absl::Status LoadOwn(SSL_CTX* context, const TlsOptions& options) {
  if (options.cert_file.empty() && options.key_file.empty()) {
    if (!options.is_server) return absl::OkStatus();
    return absl::InvalidArgumentError("TLS: a server needs a certificate and its key");
  }
  if (options.cert_file.empty() || options.key_file.empty()) {
    return absl::InvalidArgumentError("TLS: a certificate and its key are needed together");
  }
  if (SSL_CTX_use_certificate_chain_file(context, options.cert_file.c_str()) != 1) {
    return Bad("certificate", options.cert_file, TakeReason());
  }
  return LoadKey(context, options.key_file);
}

absl::Status LoadCas(SSL_CTX* context, const TlsOptions& options) {
  if (options.ca_file.empty()) {
    if (options.is_server || SSL_CTX_set_default_verify_paths(context) == 1) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("TLS: the CAs of the system: ", TakeReason()));
  }
  if (SSL_CTX_load_verify_file(context, options.ca_file.c_str()) != 1) {
    return Bad("CA file", options.ca_file, TakeReason());
  }
  if (!options.is_server) return absl::OkStatus();
  // Announces to clients which certificates are accepted.
  STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(options.ca_file.c_str());
  if (names == nullptr) return Bad("CA file", options.ca_file, TakeReason());
  SSL_CTX_set_client_CA_list(context, names);
  return absl::OkStatus();
}

int SelectAlpn(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
               unsigned int in_size, void*) {
  unsigned char* selected = nullptr;
  if (SSL_select_next_proto(&selected, out_size, kAlpn, sizeof(kAlpn), in, in_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = selected;
  return SSL_TLSEXT_ERR_OK;
}

bool Configure(SSL_CTX* context, const TlsOptions& options) {
  // AES-128 first: with AES instructions it is the fastest.
  constexpr char kSuites[] =
      "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_default_passwd_cb(context, NoPassword);
  const bool checks_peer = !options.is_server || !options.ca_file.empty();
  SSL_CTX_set_verify(context, checks_peer ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (options.is_server) SSL_CTX_set_alpn_select_cb(context, SelectAlpn, nullptr);
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_ciphersuites(context, kSuites) == 1 &&
         SSL_CTX_set_num_tickets(context, 0) == 1 &&
         (options.is_server || SSL_CTX_set_alpn_protos(context, kAlpn, sizeof(kAlpn)) == 0);
}

std::string TextOf(const ASN1_STRING* string) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(string)),
          static_cast<size_t>(ASN1_STRING_length(string))};
}

std::string AddressText(const ASN1_OCTET_STRING* address) {
  char text[INET6_ADDRSTRLEN] = "";
  const int size = ASN1_STRING_length(address);
  if (size != 4 && size != 16) return text;
  inet_ntop(size == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(address), text, sizeof(text));
  return text;
}

std::string CommonName(const X509* certificate) {
  const X509_NAME* subject = X509_get_subject_name(certificate);
  const int index = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (index < 0) return "";
  return TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index)));
}

}  // namespace

absl::StatusOr<ContextHandle> LoadContext(const TlsOptions& options) {
  ERR_clear_error();
  ContextHandle context(SSL_CTX_new(options.is_server ? TLS_server_method() : TLS_client_method()));
  if (context == nullptr || !Configure(context.get(), options)) {
    return absl::InvalidArgumentError(absl::StrCat("TLS: OpenSSL: ", TakeReason()));
  }
  RETURN_IF_ERROR(LoadCas(context.get(), options));
  RETURN_IF_ERROR(LoadOwn(context.get(), options));
  return context;
}

std::string StampOfFiles(const TlsOptions& options) {
  std::string stamp;
  std::vector<const char*> files = {options.ca_file.c_str(), options.cert_file.c_str(),
                                    options.key_file.c_str()};
  if (!options.is_server && options.ca_file.empty()) {  // OpenSSL keeps those that it has used
    files.push_back(X509_get_default_cert_file());
    files.push_back(X509_get_default_cert_dir());
  }
  for (const char* file : files) {
    struct stat info = {};
    if (*file == '\0' || stat(file, &info) != 0) continue;
    absl::StrAppend(&stamp, file, ":", info.st_dev, ":", info.st_ino, ":", info.st_size, ":",
                    info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec, ";");
  }
  return stamp;
}

std::vector<std::string> NamesIn(const X509* certificate, bool or_common_name) {
  std::vector<std::string> names;
  const NamesHandle alternatives(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(alternatives.get()); ++i) {
    const GENERAL_NAME* one = sk_GENERAL_NAME_value(alternatives.get(), i);
    std::string name;
    if (one->type == GEN_DNS) name = TextOf(one->d.dNSName);
    if (one->type == GEN_IPADD) name = AddressText(one->d.iPAddress);
    if (!name.empty()) names.push_back(std::move(name));
  }
  if (names.empty() && or_common_name) names.push_back(CommonName(certificate));
  // A NUL could make a name look like another.
  std::erase_if(names, [](const std::string& name) {
    return name.empty() || name.find('\0') != std::string::npos;
  });
  return names;
}

bool IsNumericAddress(const std::string& name) {
  in6_addr any;
  return inet_pton(AF_INET, name.c_str(), &any) == 1 ||
         inet_pton(AF_INET6, name.substr(0, name.find('%')).c_str(), &any) == 1;
}

}  // namespace dafs::dat::tls
