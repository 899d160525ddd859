// Authenticates the channels of a session by the exchange of GSS tokens, and renews that before it
// expires; or by a name and a password, as an exchange with one token.
// Spec: 3.1.1.1.1, 6.2.2; WIRE R58.
//
// Belongs to the thread of the session's loop. Tokens are made on the client's TokenThread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/exchange/exchanger.h"
#include "client/exchange/session_context.h"
#include "client/state/server/token_thread.h"
#include "runtime/loop/task.h"
#include "runtime/loop/wait_list.h"
#include "wire/auth/exchange.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class Login {
 public:
  // Both must outlive this.
  Login(SessionContext& context, Exchanger& exchanger)
      : context_(context), exchanger_(exchanger), waits_(context.loop) {}
  Login(const Login&) = delete;
  Login& operator=(const Login&) = delete;

  // One exchange with the server. The thread that runs a step shares it.
  struct Dialogue {
    std::unique_ptr<auth::Exchange> exchange;
    std::string token;  // for the next step, and what it has made of it
    absl::StatusOr<auth::Exchange::Progress> progress = auth::Exchange::Progress::kContinues;
  };

  // Sends CLIENT_AUTH until both sides have proven who they are. Sets `trusted` in the negotiated
  // values. kUnauthenticated: one side is refused. kFailedPrecondition: this side has no
  // credentials, or the server takes none. kUnavailable: it may succeed later.
  Task<absl::Status> Authenticate(absl::Time deadline);
  // From now on, renews what Authenticate has proven at 80 % of its life. If that fails until it
  // has expired, the session is given up.
  void Renew();

  // Whether a session that authenticates so needs this.
  static bool IsUsedFor(wire::AuthType method) {
    return method == wire::AuthType::kGss || method == wire::AuthType::kText;
  }
  // Moves the token that a step has made into a request, whose auth_type is set.
  static void Put(Dialogue& dialogue, wire::AuthReq& request);

  // For another channel, whose tls-exporter is `channel_binding`: makes the token of its
  // CONNECT_BIND, and takes the answer.
  std::shared_ptr<Dialogue> Begin(const std::string& channel_binding);
  Task<absl::Status> Step(std::shared_ptr<Dialogue> dialogue, absl::Time deadline);

  // The session has ended: nothing starts any more. ResumeAll follows, which resumes all waiters.
  void Stop();
  void ResumeAll();

 private:
  Task<absl::Status> Exchange(absl::Time deadline);
  Task<void> RenewNow();
  void RenewAfter(absl::Duration delay);

  SessionContext& context_;
  Exchanger& exchanger_;
  WaitList waits_;
  std::shared_ptr<TokenThread::Job> job_;  // the one that is waited for
  absl::Duration lifetime_ = absl::InfiniteDuration();
  absl::Time expires_ = absl::InfiniteFuture();
  Loop::TimerId timer_ = 0;
  bool has_timer_ = false;
  bool is_stopped_ = false;
};

}  // namespace dafs::client
