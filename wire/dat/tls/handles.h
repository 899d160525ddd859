// Owners of OpenSSL's objects.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

namespace dafs::dat::tls {

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using BioHandle = std::unique_ptr<BIO, Free<BIO_free_all>>;
using ContextHandle = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using KeyHandle = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using NamesHandle = std::unique_ptr<GENERAL_NAMES, Free<GENERAL_NAMES_free>>;
using SslHandle = std::unique_ptr<SSL, Free<SSL_free>>;

}  // namespace dafs::dat::tls
