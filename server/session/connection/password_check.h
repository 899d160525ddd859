// The password by which the client of a channel authenticates: on the Operation Channel by
// CLIENT_CONNECT_AUTH and CLIENT_AUTH, on others by CONNECT_BIND.
// Spec: 6.1.9 (DAFS_AUTH_TEXT), 6.2.2.
//
// Belongs to the session's thread. A hash is computed on a thread of its own (Shared::passwords).
#pragma once

#include "server/session/connection/gss_rounds.h"

namespace dafs::server {

class PasswordCheck {
 public:
  // After a wrong password the response waits this long. After kMostFailures the connection
  // ends.
  static constexpr absl::Duration kDelay = absl::Seconds(1);
  static constexpr int kMostFailures = 5;

  // Both must outlive this.
  PasswordCheck(const Shared& shared, Connection& connection)
      : shared_(shared), connection_(connection) {}
  PasswordCheck(const PasswordCheck&) = delete;
  PasswordCheck& operator=(const PasswordCheck&) = delete;

  // As GssRounds::Take. Requires shared.passwords. Erases the password of `request`.
  Task<GssRounds::Round> Take(wire::AuthReq& request);

 private:
  void Check(const wire::AuthReq& request, GssRounds::Round* round) const;

  const Shared& shared_;
  Connection& connection_;
  int failures_ = 0;
  bool busy_ = false;
};

}  // namespace dafs::server
