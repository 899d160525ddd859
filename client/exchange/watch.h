// Watches the outstanding requests of a session: ends waits at their deadline, warns of long ones,
// and fails a session whose server is silent.
//
// Belongs to the thread of the session's loop. Runs on a coarse timer, since a timer for each
// request would cost too much.
#pragma once

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "client/exchange/exchange.h"
#include "client/exchange/receiver.h"
#include "client/exchange/session_context.h"
#include "client/exchange/slots.h"
#include "runtime/loop/loop.h"

namespace dafs::client {

class Watch {
 public:
  // `probe` sends a request that even a busy server answers. All must outlive this.
  Watch(SessionContext& context, Slots& slots, Exchanges& exchanges, const Receiver& receiver,
        absl::AnyInvocable<void()> probe);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Call before a wait for a slot or a response. The watch stops when there is none.
  void Start();
  void Stop();

 private:
  void Tick();
  void EndOverdueExchanges(absl::Time now);
  void Warn(Exchange& exchange, absl::Time now);
  void Abandon(Exchange& exchange);
  void CheckSilence(absl::Time now);

  SessionContext& context_;
  Slots& slots_;
  Exchanges& exchanges_;
  const Receiver& receiver_;
  absl::AnyInvocable<void()> probe_;
  Loop::TimerId tick_ = 0;
};

}  // namespace dafs::client
