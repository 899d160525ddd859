#include "client/session/login.h"

#include <string.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/exchange/call.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "wire/messages/messages.h"
#include "wire/protocol/status.h"

namespace dafs::client {

using wire::DafsStatus;

namespace {

constexpr int kMostRounds = 8;  // Kerberos needs one, other mechanisms three
// Header and arguments of CLIENT_AUTH, besides the token.
constexpr size_t kAroundToken = 128;
constexpr double kRenewAt = 0.8;                          // of the lifetime
constexpr absl::Duration kLeastRetry = absl::Seconds(1);  // of a renewal that failed

// The refusal of a CLIENT_AUTH.
absl::Status Refused(DafsStatus status, wire::AuthType method) {
  const bool is_text = method == wire::AuthType::kText;
  switch (status) {
    case DafsStatus::kNotSupp:
      if (!is_text) break;
      return absl::FailedPreconditionError(
          "Password: no export takes it; give dafsd --password-file, and the export sec=text");
    case DafsStatus::kNotAuthorized:
    case DafsStatus::kNotAuthenticated:
      if (!is_text) break;
      return absl::UnauthenticatedError(
          "Password: the server refuses this name or password; its log says why");
    default:
      break;
  }
  switch (status) {
    case DafsStatus::kNotSupp:
      return absl::FailedPreconditionError(
          "Kerberos: the server does not accept it; give dafsd --keytab");
    case DafsStatus::kNotAuthorized:
    case DafsStatus::kNotAuthenticated:
      return absl::UnauthenticatedError(
          "Kerberos: the server refuses this principal; its log says why");
    case DafsStatus::kDelay:
      return absl::UnavailableError("the server is draining: it takes no new clients now");
    default:
      return wire::StatusFromDafs(status, wire::Name(wire::Proc::kClientAuth));
  }
}

}  // namespace

std::shared_ptr<Login::Dialogue> Login::Begin(const std::string& channel_binding) {
  auto dialogue = std::make_shared<Dialogue>();
  dialogue->exchange = context_.client.options().initiator->Begin(channel_binding);
  return dialogue;
}

void Login::Put(Dialogue& dialogue, wire::AuthReq& request) {
  if (request.auth_type != wire::AuthType::kText) {
    request.token = std::move(dialogue.token);
    return;
  }
  const size_t end = std::min(dialogue.token.find('\0'), dialogue.token.size());
  request.auth_id = dialogue.token.substr(0, end);
  if (end < dialogue.token.size()) request.auth_password = dialogue.token.substr(end + 1);
  explicit_bzero(dialogue.token.data(), dialogue.token.size());
  dialogue.token.clear();
}

Task<absl::Status> Login::Step(std::shared_ptr<Dialogue> dialogue, absl::Time deadline) {
  if (is_stopped_) co_return absl::CancelledError("session closed");
  auto work = [dialogue] {
    std::string made;
    dialogue->progress = dialogue->exchange->Step(dialogue->token, &made);
    dialogue->token = std::move(made);
  };
  job_ = context_.client.token_thread().Run(context_.loop, std::move(work),
                                            [this] { waits_.WakeAll(absl::OkStatus()); });
  const std::shared_ptr<TokenThread::Job> job = job_;
  absl::Status waited = co_await waits_.Wait(deadline);
  job->Cancel();
  if (absl::IsDeadlineExceeded(waited)) {
    co_return absl::UnavailableError("Kerberos: no ticket in time; is a KDC reachable?");
  }
  if (!waited.ok()) co_return waited;
  co_return dialogue->progress.status();
}

Task<absl::Status> Login::Authenticate(absl::Time deadline) {
  Task<absl::Status> exchanging = Exchange(deadline);
  absl::Status status = co_await exchanging;
  if (status.ok()) expires_ = Loop::Now() + lifetime_;
  co_return status;
}

Task<absl::Status> Login::Exchange(absl::Time deadline) {
  const std::shared_ptr<const dat::TlsPeer> tls = context_.link.endpoint().tls_peer();
  const std::shared_ptr<Dialogue> dialogue = Begin(tls == nullptr ? "" : tls->channel_binding);
  DafsStatus status = DafsStatus::kGssContinueInit;
  for (int round = 0; round < kMostRounds; ++round) {
    Task<absl::Status> stepping = Step(dialogue, deadline);
    CO_RETURN_IF_ERROR(co_await stepping);
    const bool is_done = *dialogue->progress == auth::Exchange::Progress::kDone;
    if (status == DafsStatus::kOk) {  // the server has no more to say
      if (!is_done) break;
      lifetime_ = dialogue->exchange->lifetime();
      co_return absl::OkStatus();
    }
    if (dialogue->token.size() + kAroundToken > context_.negotiated.max_request_size) {
      co_return absl::FailedPreconditionError(
          absl::StrCat("Kerberos: a ticket of ", dialogue->token.size(),
                       " bytes does not fit into a request; mount with msgsize=69632"));
    }
    Call<wire::ClientAuthArgs> auth;
    auth.args.auth_req.auth_type = context_.negotiated.auth;
    auth.args.auth_req.procedure =
        round == 0 ? wire::GssProcedure::kInit : wire::GssProcedure::kContinueInit;
    Put(*dialogue, auth.args.auth_req);
    CallBase* const chain[] = {&auth};
    Task<absl::Status> sending = exchanger_.Run(wire::CredHandle(), chain, deadline);
    const absl::Status sent = co_await sending;
    explicit_bzero(auth.args.auth_req.auth_password.data(),
                   auth.args.auth_req.auth_password.size());
    if (!sent.ok()) co_return sent;
    status = auth.status;
    if (status != DafsStatus::kOk && status != DafsStatus::kGssContinueInit) {
      co_return Refused(status, context_.negotiated.auth);
    }
    context_.negotiated.trusted = auth.res.trusted;
    dialogue->token = std::move(auth.res.auth_res.gss_token);
    if (status == DafsStatus::kOk && is_done && dialogue->token.empty()) {
      lifetime_ = dialogue->exchange->lifetime();
      co_return absl::OkStatus();
    }
  }
  co_return absl::UnauthenticatedError("Kerberos: the exchange with the server did not complete");
}

void Login::Renew() {
  if (lifetime_ != absl::InfiniteDuration()) RenewAfter(kRenewAt * lifetime_);
}

void Login::RenewAfter(absl::Duration delay) {
  has_timer_ = true;
  timer_ = context_.loop.RunAfter(delay, [this] {
    has_timer_ = false;
    Start(RenewNow());
  });
}

Task<void> Login::RenewNow() {
  Task<absl::Status> authenticating = Authenticate(expires_);
  const absl::Status status = co_await authenticating;
  if (is_stopped_) co_return;
  if (status.ok()) {
    Renew();
    co_return;
  }
  const absl::Duration left = expires_ - Loop::Now();
  if (left <= absl::ZeroDuration()) {
    context_.link.Fail(absl::UnavailableError(
        absl::StrCat("the client's credentials have expired: ", status.message())));
    co_return;
  }
  LogWarning(absl::StrCat(
      context_.client.options().server_name, ": ", status.message(), "; the session ends in ",
      absl::FormatDuration(absl::Trunc(left, absl::Seconds(1))), " unless a retry succeeds"));
  RenewAfter(std::min(left, std::max(kLeastRetry, left / 5)));
}

void Login::Stop() {
  is_stopped_ = true;
  if (std::exchange(has_timer_, false)) context_.loop.Cancel(timer_);
  if (job_ != nullptr) job_->Cancel();
}

void Login::ResumeAll() { waits_.WakeAll(context_.link.Lost()); }

}  // namespace dafs::client
