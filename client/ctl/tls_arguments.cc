#include "client/ctl/tls_arguments.h"

#include <CLI/CLI.hpp>

#include "runtime/status_macros.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/dat/tls/openssl_tls.h"

namespace dafs::client {

void AddTlsArguments(CLI::App& command, TlsArguments& arguments) {
  command
      .add_option("--xprtsec", arguments.xprtsec, "protection of the connection: none, tls or mtls")
      ->check(CLI::IsMember({"none", "tls", "mtls"}))
      ->capture_default_str();
  command.add_option("--tls-ca", arguments.ca,
                     "CAs of the server's certificate; default: those of the system");
  command.add_option("--tls-cert", arguments.cert, "certificate of this machine, for mtls");
  command.add_option("--tls-key", arguments.key, "its private key");
}

absl::StatusOr<std::unique_ptr<dat::Provider>> NewTcpProvider(const TlsArguments& arguments,
                                                              const std::string& host) {
  const bool is_mutual = arguments.xprtsec == "mtls";
  if (!arguments.wanted() && !arguments.ca.empty()) {
    return absl::InvalidArgumentError("--tls-ca needs --xprtsec tls or mtls");
  }
  if (is_mutual != !arguments.cert.empty() || is_mutual != !arguments.key.empty()) {
    return absl::InvalidArgumentError("--xprtsec mtls, --tls-cert and --tls-key go together");
  }
  dat::IwarpOptions options;
  if (arguments.wanted()) {
    ASSIGN_OR_RETURN(options.tls, dat::NewTls({.server_name = host,
                                               .ca_file = arguments.ca,
                                               .cert_file = arguments.cert,
                                               .key_file = arguments.key}));
  }
  return dat::NewIwarpProvider(options);
}

}  // namespace dafs::client
