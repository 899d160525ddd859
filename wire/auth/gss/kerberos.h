// Kerberos 5 by MIT's GSS library (RFC 4121): makes the initiator of a client and the acceptor of a
// server. The server's principal is dafs/HOST (6.2.2). Both sides prove who they are.
// Thread-safe. Neither function blocks: files and key distribution centres are read by the steps.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "wire/auth/exchange.h"

namespace dafs::auth {

struct InitiatorOptions {
  std::string server_host;     // of the principal dafs/HOST
  std::string keytab;          // the client's keys; empty: the tickets of the environment
  std::string principal = {};  // in the keytab or cache; empty: the first or default one
};
// Errors: kInvalidArgument, with the remedy.
absl::StatusOr<std::unique_ptr<Initiator>> NewKerberosInitiator(const InitiatorOptions& options);

struct AcceptorOptions {
  std::string keytab;  // read by each exchange, so that new keys take effect at once
  // File that remembers what was accepted, so that a copied token is refused. Its folder exists.
  std::string replay_cache;
};
absl::StatusOr<std::unique_ptr<Acceptor>> NewKerberosAcceptor(const AcceptorOptions& options);

}  // namespace dafs::auth
