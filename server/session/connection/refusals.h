// Logs that the client of one connection is refused, and the remedy. RefusalLog limits the lines.
// Any thread, while the session lasts: lookups in an export that may hang run in its pool. Nothing
// blocks.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "server/clients/principal.h"
#include "server/session/connection/connection.h"
#include "server/session/shared/shared.h"

namespace dafs::server {

class Refusals {
 public:
  // `host`: SessionTable::Place::host. All are borrowed and outlive this.
  Refusals(const Shared& shared, const Connection& connection, const std::string& host)
      : shared_(shared), connection_(connection), host_(host) {}

  // The client was refused for a reason of `kind`.
  void Say(const std::string& client_id_string, const char* kind, absl::string_view why);
  // `holder` has the name of the client.
  void SayInUse(const std::string& client_id_string, const Principal& holder);
  // No export admits the client.
  void SayNotAdmitted(const std::string& client_id_string);
  // An export refused the client with kWrongSec (Export::Admission): because of its port, or of
  // TLS.
  void SayWrongSecurity(const std::string& client_id_string);
  // A name leads only to exports that do not admit the identity of the client (PseudoTree::Find).
  // `name` has no control characters.
  void SayHidden(const std::string& client_id_string, absl::string_view name);
  // Returns true if some export refuses the peer for another reason than its address.
  bool HasWrongSecurity() const;

 private:
  // Whether RefusalLog has room for a line of `kind`. Ask before the text is composed.
  bool IsSaid(const char* kind) const;
  void Write(const std::string& client_id_string, absl::string_view why) const;

  const Shared& shared_;
  const Connection& connection_;
  const std::string& host_;
};

}  // namespace dafs::server
