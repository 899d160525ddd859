#include "wire/dat/tls/explain.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dafs::dat::tls {
namespace {

const char* PeerOf(const TlsOptions& options) { return options.is_server ? "client" : "server"; }

absl::Status Refused(const TlsOptions& options, absl::string_view why) {
  return absl::UnauthenticatedError(
      absl::StrCat("TLS: the certificate of the ", PeerOf(options), " ", why));
}

std::string CaOption(const TlsOptions& options) {
  const std::string source =
      options.ca_file.empty() ? std::string("the CAs of this system") : options.ca_file;
  return absl::StrCat("is not signed by a CA of ", source, "; add its CA there, or name another ",
                      "file with ", options.is_server ? "--tls-ca" : "tlsca=");
}

std::string NotFor(const TlsOptions& options, const std::vector<std::string>& refused_names) {
  const std::string names = absl::StrJoin(refused_names, ", ");
  return absl::StrCat(
      "is for ", names.empty() ? "no name (subjectAltName)" : absl::CHexEscape(names), ", not for ",
      options.server_name, "; use one of its names, or issue it for this one");
}

absl::Status ExplainVerification(const SSL* ssl, const TlsOptions& options,
                                 const std::vector<std::string>& refused_names) {
  const long result = SSL_get_verify_result(ssl);
  switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return Refused(options, "has expired; renew it, and check the clocks of both machines");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return Refused(options, "is not valid yet; check the clocks of both machines");
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return Refused(options, NotFor(options, refused_names));
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_UNTRUSTED:
      return Refused(options, CaOption(options));
    case X509_V_ERR_INVALID_PURPOSE:
      return Refused(options, absl::StrCat("may not be used by a ", PeerOf(options),
                                           "; issue it with that extended key usage"));
    default:
      return Refused(options, absl::StrCat("is refused: ", X509_verify_cert_error_string(result),
                                           "; issue another"));
  }
}

absl::Status ExplainAlert(int alert, const TlsOptions& options) {
  const auto refused = [&](absl::string_view why) {
    return absl::UnauthenticatedError(
        absl::StrCat("TLS: the ", PeerOf(options), " refuses the certificate of this ",
                     options.is_server ? "server" : "client", ": ", why));
  };
  switch (alert) {
    case SSL_AD_HANDSHAKE_FAILURE:
      if (options.is_server) break;
      // Not proven to be from the server, so it must not talk anyone out of TLS.
      return absl::FailedPreconditionError(
          "TLS: the server refuses TLS; start dafsd with --tls-cert and --tls-key");
    case SSL_AD_NO_APPLICATION_PROTOCOL:
      return WrongProtocol(options);
    case SSL_AD_PROTOCOL_VERSION:
      return absl::FailedPreconditionError(
          absl::StrCat("TLS: the ", PeerOf(options), " does not speak TLS 1.3; update it"));
    case SSL_AD_UNKNOWN_CA:
      return refused(options.is_server
                         ? "it does not know its CA; give that to the client with tlsca="
                         : "it does not know its CA; give that to dafsd with --tls-ca");
    case SSL_AD_CERTIFICATE_EXPIRED:
      return refused("it has expired; renew it, and check the clocks of both machines");
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_ACCESS_DENIED:
      return refused(
          absl::StrCat(SSL_alert_desc_string_long(alert), "; check that its names and dates fit"));
    default:
      break;
  }
  return absl::DataLossError(
      absl::StrCat("TLS: the ", PeerOf(options), " reports: ", SSL_alert_desc_string_long(alert)));
}

}  // namespace

absl::Status WrongProtocol(const TlsOptions& options) {
  return absl::FailedPreconditionError(
      absl::StrCat("TLS: the ", PeerOf(options),
                   " does not speak DAFS over TLS (ALPN dafs); check its address and port"));
}

absl::Status Explain(const SSL* ssl, const TlsOptions& options, const Failure& failure) {
  const SocketState& socket = failure.socket;
  const bool in_handshake = failure.in_handshake;
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  const bool is_ssl = ERR_GET_LIB(error) == ERR_LIB_SSL;
  const char* text = error != 0 ? ERR_reason_error_string(error) : nullptr;
  ERR_clear_error();
  if (socket.error != 0) {
    return absl::UnavailableError(absl::StrCat("TLS: ", std::strerror(socket.error)));
  }
  if (is_ssl && reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    return ExplainVerification(ssl, options, failure.refused_names);
  }
  if (is_ssl && reason > SSL_AD_REASON_OFFSET) {
    return ExplainAlert(reason - SSL_AD_REASON_OFFSET, options);
  }
  if (socket.at_end) {
    return absl::UnavailableError(
        in_handshake
            ? absl::StrCat("TLS: the ", PeerOf(options),
                           " closed the connection during the handshake; check that it offers TLS")
            : absl::StrCat("TLS: the ", PeerOf(options),
                           " closed the connection without close_notify: its stream is truncated"));
  }
  if (is_ssl && (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_UNSUPPORTED_PROTOCOL)) {
    return absl::FailedPreconditionError(absl::StrCat("TLS: the ", PeerOf(options),
                                                      " does not speak TLS 1.3 there; check its ",
                                                      "address and port, and update it"));
  }
  if (is_ssl && reason == SSL_R_NO_APPLICATION_PROTOCOL) return WrongProtocol(options);
  return absl::DataLossError(
      absl::StrCat("TLS: ", text != nullptr ? text : "unknown failure of OpenSSL"));
}

}  // namespace dafs::dat::tls
