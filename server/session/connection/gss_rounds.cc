#include "server/session/connection/gss_rounds.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/loop/loop.h"
#include "server/session/shared/pool.h"
#include "server/store/objects/principal_pattern.h"
#include "server/store/store.h"
#include "wire/auth/idmap/id_map.h"
#include "wire/protocol/limits.h"

namespace dafs::server {

using wire::DafsStatus;

bool GssRounds::offered() const { return shared_.options->acceptor != nullptr; }

Task<GssRounds::Round> GssRounds::Take(const wire::AuthReq& request, wire::AuthRes* answer) {
  answer->auth_type = wire::AuthType::kGss;
  Round round{.status = DafsStatus::kIllegalState, .why = {}, .proof = {}};
  if (busy_) co_return round;
  if (request.procedure == wire::GssProcedure::kInit) {
    const Peer& peer = connection_.peer();
    exchange_ =
        shared_.options->acceptor->Begin(peer.tls == nullptr ? "" : peer.tls->channel_binding);
    steps_ = 0;
  }
  if (exchange_ == nullptr) co_return round;
  busy_ = true;
  auto step = [&] { Step(request.token, answer, &round); };
  co_await Offload(*shared_.pool, connection_.loop(), step);
  busy_ = false;
  if (round.status != DafsStatus::kGssContinueInit) exchange_.reset();
  co_return round;
}

// On a thread of the pool.
void GssRounds::Step(const std::string& token, wire::AuthRes* answer, Round* round) {
  Store::RestoreServerIdentity();
  absl::StatusOr<auth::Exchange::Progress> progress = exchange_->Step(token, &answer->gss_token);
  answer->gss_major = exchange_->major_status();
  answer->gss_minor = exchange_->minor_status();
  round->status = DafsStatus::kNotAuthorized;
  if (!progress.ok()) {
    round->why = std::string(progress.status().message());
  } else if (*progress == auth::Exchange::Progress::kDone) {
    Complete(round);
  } else if (++steps_ < kMost) {
    round->status = DafsStatus::kGssContinueInit;
  } else {
    round->why = absl::StrCat("the exchange is not complete after ", kMost, " tokens");
  }
}

// On a thread of the pool: looks the user up.
void GssRounds::Complete(Round* round) const {
  const std::string& name = exchange_->peer_name();
  round->proof.principal = std::make_shared<const std::string>(name);
  round->proof.expires = Loop::Now() + exchange_->lifetime();
  if (name.find('@') == std::string::npos) {
    round->why = absl::StrCat("principal ", absl::CHexEscape(name), " has no realm");
    return;
  }
  if (exchange_->lifetime() <= absl::ZeroDuration()) {
    round->why = absl::StrCat("the ticket of ", absl::CHexEscape(name), " has expired");
    return;
  }
  if (PrincipalFitsAny(shared_.options->trusted, name)) {
    round->status = DafsStatus::kOk;
    return;
  }
  Credential user;
  round->why = FindUser(name, &user);
  if (!round->why.empty()) return;
  round->proof.user = std::make_shared<const Credential>(std::move(user));
  round->status = DafsStatus::kOk;
}

// On a thread of the pool. Returns why there is none; empty: found.
std::string GssRounds::FindUser(const std::string& principal, Credential* user) const {
  constexpr char kOrTrusted[] = ", or give --trusted if it is a machine that acts for its users";
  if (shared_.ids != nullptr) {
    absl::StatusOr<auth::MappedUser> mapped = shared_.ids->User(principal);
    if (!mapped.ok()) {
      return absl::StrCat("principal ", absl::CHexEscape(principal), ": ",
                          mapped.status().message(),
                          absl::IsNotFound(mapped.status()) ? kOrTrusted : "");
    }
    if (mapped->groups.size() > wire::kGroupsMax) {
      return absl::StrCat("principal ", absl::CHexEscape(principal), " is in more than ",
                          wire::kGroupsMax, " groups");
    }
    *user = {mapped->uid, mapped->gid, std::move(mapped->groups)};
    return {};
  }
  const std::string& local = exchange_->user();
  if (!local.empty() && CredentialOfUser(local, user) == DafsStatus::kOk) return {};
  return absl::StrCat(
      "principal ", absl::CHexEscape(principal),
      " is not a user of this machine; add the user, or a rule auth_to_local to krb5.conf",
      kOrTrusted);
}

}  // namespace dafs::server
