// Certificates, keys and CAs from files: what is refused, with which message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/wire/dat/tls/certificates.h"
#include "wire/dat/tls/openssl_tls.h"

namespace dafs::dat::testing {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const TlsOptions& options) {
  return std::string(NewTls(options).status().message());
}

TEST(TlsFiles, CompleteSidesAreAccepted) {
  Certificates certificates;
  EXPECT_EQ(Refusal(certificates.Server()), "");
  EXPECT_EQ(Refusal(certificates.Client()), "");
  EXPECT_EQ(Refusal(certificates.ClientWithCertificate()), "");
  TlsOptions system = certificates.Client();
  system.ca_file = "";
  EXPECT_EQ(Refusal(system), "");
}

TEST(TlsFiles, KeyThatOthersMayAccessIsRefused) {
  Certificates certificates;
  for (const mode_t mode : {0604u, 0620u, 0644u, 0602u}) {
    ASSERT_EQ(chmod(certificates.key().c_str(), mode), 0);
    EXPECT_EQ(Refusal(certificates.Server()), "TLS key " + certificates.key() +
                                                  ": other users may access it; run chmod 600 " +
                                                  certificates.key());
  }
  ASSERT_EQ(chmod(certificates.key().c_str(), 0640), 0);  // root:ssl-cert of Debian
  EXPECT_EQ(Refusal(certificates.Server()), "");
}

TEST(TlsFiles, MissingAndBadFilesAreNamed) {
  Certificates certificates;
  const std::string text = certificates.PathOf("text");
  std::ofstream(text) << "no certificate";
  ASSERT_EQ(chmod(text.c_str(), 0600), 0);

  TlsOptions options = certificates.Server();
  options.cert_file = certificates.PathOf("absent");
  EXPECT_THAT(Refusal(options),
              HasSubstr("TLS certificate " + options.cert_file + ": No such file"));
  options = certificates.Server();
  options.cert_file = text;
  EXPECT_THAT(Refusal(options), HasSubstr("TLS certificate " + text));
  options = certificates.Server();
  options.key_file = text;
  EXPECT_THAT(Refusal(options), HasSubstr("TLS key " + text + ": not a private key in PEM"));
  options.key_file = certificates.PathOf("absent");
  EXPECT_THAT(Refusal(options), HasSubstr("TLS key " + options.key_file + ": No such file"));
  options = certificates.Server();
  options.ca_file = text;
  EXPECT_THAT(Refusal(options), HasSubstr("TLS CA file " + text));
}

TEST(TlsFiles, KeyOfAnotherCertificateIsRefused) {
  Certificates certificates, others;
  TlsOptions options = certificates.Server();
  options.key_file = others.key();
  EXPECT_THAT(Refusal(options), HasSubstr("it is not the key of the certificate"));
}

TEST(TlsFiles, CertificateAndKeyAreNeededTogether) {
  Certificates certificates;
  TlsOptions options = certificates.ClientWithCertificate();
  options.key_file = "";
  EXPECT_THAT(Refusal(options), HasSubstr("needed together"));
  options = certificates.Server();
  options.cert_file = options.key_file = "";
  EXPECT_THAT(Refusal(options), HasSubstr("a server needs a certificate"));
}

TEST(TlsFiles, FailedReloadChangesNothing) {
  Certificates certificates;
  const TlsOptions options = certificates.Server();
  const auto tls = NewTls(options);
  ASSERT_TRUE(tls.ok());
  std::ofstream(options.cert_file) << "broken";
  EXPECT_TRUE(absl::IsInvalidArgument((*tls)->Reload()));
  EXPECT_TRUE((*tls)->NewStream(-1).ok());
}

}  // namespace
}  // namespace dafs::dat::testing
