// Negotiates and authenticates a session that has just connected.
// Spec: 3.1.1.1, 3.1.2.2, 6.2.1 to 6.2.4; WIRE 11.3, 11.4.
// Lives while the session is being established, on the thread of its loop.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/exchange/exchanger.h"
#include "client/exchange/session_context.h"
#include "client/session/login.h"
#include "runtime/loop/task.h"
#include "wire/messages/messages.h"

namespace dafs::client {

class Negotiation {
 public:
  // All must outlive this.
  Negotiation(SessionContext& context, Exchanger& exchanger, Login& login)
      : context_(context), exchanger_(exchanger), login_(login) {}
  Negotiation(const Negotiation&) = delete;
  Negotiation& operator=(const Negotiation&) = delete;

  // Sends CLIENT_CONNECT_AUTH, or CLIENT_CONNECT, SECINFO and CLIENT_AUTH, or for GSS
  // CLIENT_CONNECT and CLIENT_AUTH, then asks for extensions of the draft and which server this is.
  // Stores the agreed values in the context. Errors: those of Session::Establish.
  Task<absl::Status> Run(absl::Time deadline);

 private:
  Task<absl::Status> ConnectAndAuthenticate(absl::Time deadline);
  Task<absl::Status> Connect(absl::Time deadline);
  Task<absl::Status> ConnectThenAuthenticate(absl::Time deadline);
  Task<absl::Status> ConnectThenLogIn(absl::Time deadline);
  Task<absl::Status> Authenticate(const wire::SecinfoRes& offered, absl::Time deadline);
  Task<absl::Status> AskForExtensions(absl::Time deadline);
  Task<absl::Status> AskForIdentity(absl::Time deadline);
  Task<absl::Status> Send(CallBase& call, absl::Time deadline);
  template <class Args>
  void Propose(Args& args) const;
  template <class Res>
  absl::Status Agree(const Res& res);
  absl::Status Refused(const CallBase& call) const;

  SessionContext& context_;
  Exchanger& exchanger_;
  Login& login_;
};

}  // namespace dafs::client
