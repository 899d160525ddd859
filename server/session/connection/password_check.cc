#include "server/session/connection/password_check.h"

#include <string.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/loop/loop.h"
#include "server/clients/passwords.h"
#include "server/session/shared/pool.h"
#include "server/store/store.h"

namespace dafs::server {

using wire::DafsStatus;

Task<GssRounds::Round> PasswordCheck::Take(wire::AuthReq& request) {
  GssRounds::Round round{.status = DafsStatus::kIllegalState, .why = {}, .proof = {}};
  if (!std::exchange(busy_, true)) {
    auto check = [&] { Check(request, &round); };
    co_await Offload(*shared_.passwords, connection_.loop(), check);
    if (round.status != DafsStatus::kOk) {
      Task<void> waiting = connection_.loop().Sleep(kDelay);
      co_await waiting;
      if (++failures_ >= kMostFailures) {
        connection_.End(
            absl::UnauthenticatedError(absl::StrCat(kMostFailures, " wrong names or passwords")));
      }
    }
    busy_ = false;
  }
  explicit_bzero(request.auth_password.data(), request.auth_password.size());
  co_return round;
}

// On the thread for passwords.
void PasswordCheck::Check(const wire::AuthReq& request, GssRounds::Round* round) const {
  Store::RestoreServerIdentity();
  Credential user;
  const absl::Status status =
      CheckPassword(shared_.options->password_file, request.auth_id, request.auth_password, &user);
  round->status = DafsStatus::kNotAuthorized;
  if (!status.ok()) {
    round->why = absl::StrCat(absl::CHexEscape(request.auth_id), ": ", status.message());
    return;
  }
  round->proof.principal = std::make_shared<const std::string>(request.auth_id);
  round->proof.user = std::make_shared<const Credential>(std::move(user));
  round->proof.expires = absl::InfiniteFuture();
  round->status = DafsStatus::kOk;
}

}  // namespace dafs::server
