// The exchange of GSS tokens by which the client of a channel authenticates: on the Operation
// Channel by CLIENT_CONNECT_AUTH and CLIENT_AUTH, on others by CONNECT_BIND.
// Spec: 3.1.1.1.1, 6.2.2; WIRE R58.
//
// Belongs to the session's thread. Tokens are taken on a thread of the pool, since that may wait
// for files and name services.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "runtime/loop/task.h"
#include "server/clients/credentials.h"
#include "server/session/connection/connection.h"
#include "server/session/shared/shared.h"
#include "wire/auth/exchange.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// The outcome of a complete exchange.
struct GssProof {
  std::shared_ptr<const std::string> principal;
  // The user that the client is; null: it may act for any user (--trusted).
  std::shared_ptr<const Credential> user;
  absl::Time expires;  // of Loop::Now
};

class GssRounds {
 public:
  // Both must outlive this.
  GssRounds(const Shared& shared, Connection& connection)
      : shared_(shared), connection_(connection) {}
  GssRounds(const GssRounds&) = delete;
  GssRounds& operator=(const GssRounds&) = delete;

  // Whether the server accepts GSS at all.
  bool offered() const;

  struct Round {
    // kOk: `proof` is set. kGssContinueInit: the client must send another token. kNotAuthorized:
    // refused; `why` says why, for the log. kIllegalState: there is no exchange to continue, or its
    // last token is still being taken.
    wire::DafsStatus status;
    std::string why;
    GssProof proof;
  };
  // Takes the token of `request` and sets the token of `answer`. Requires offered(). An exchange
  // that is under way ends if the request begins another.
  Task<Round> Take(const wire::AuthReq& request, wire::AuthRes* answer);

 private:
  // Tokens of one exchange. Kerberos needs one, other mechanisms three.
  static constexpr int kMost = 8;

  void Step(const std::string& token, wire::AuthRes* answer, Round* round);
  void Complete(Round* round) const;
  std::string FindUser(const std::string& principal, Credential* user) const;

  const Shared& shared_;
  Connection& connection_;
  // Kept until the exchange is complete: what it has proven does not depend on the context.
  std::unique_ptr<auth::Exchange> exchange_;
  int steps_ = 0;
  bool busy_ = false;
};

}  // namespace dafs::server
