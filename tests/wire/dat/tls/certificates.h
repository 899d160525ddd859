// Certificates for tests, in a temporary folder that the destructor removes: a CA, and what it has
// signed. Every certificate has the same key, which is made once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "wire/dat/tls.h"

struct evp_pkey_st;
struct x509_st;

namespace dafs::dat::testing {

class Certificates {
 public:
  Certificates();
  ~Certificates();
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  struct Wish {
    std::vector<std::string> names;         // DNS names and addresses
    absl::Duration from = -absl::Hours(1);  // from now
    absl::Duration to = absl::Hours(1);
    bool by_another_ca = false;
  };
  // Writes a certificate and returns its path.
  std::string Issue(const std::string& file, const Wish& wish);
  std::string PathOf(const std::string& file) const { return folder_ + "/" + file; }
  std::string ca() const { return PathOf("ca.pem"); }
  std::string key() const { return PathOf("key.pem"); }

  // A server for "localhost" and 127.0.0.1, which requests certificates.
  TlsOptions Server();
  // A client that expects 127.0.0.1, with and without a certificate for "client.example".
  TlsOptions Client();
  TlsOptions ClientWithCertificate();

 private:
  const std::string folder_;
  evp_pkey_st* key_;
  x509_st* ca_;
  x509_st* other_ca_;
};

}  // namespace dafs::dat::testing
