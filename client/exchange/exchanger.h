// Exchanges chains of requests for their responses, over the connection of a session. It joins the
// slots, the sending and receiving half, the windows and the watch.
// Spec: 3.2.6 (flow control), 4.3 (chains), 5.2.1 (streams).
//
// Belongs to the thread of the session's loop. Sending and receiving do not allocate.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/exchange/call.h"
#include "client/exchange/exchange.h"
#include "client/exchange/message_buffers.h"
#include "client/exchange/null_requests.h"
#include "client/exchange/receiver.h"
#include "client/exchange/report.h"
#include "client/exchange/sender.h"
#include "client/exchange/session_context.h"
#include "client/exchange/slots.h"
#include "client/exchange/watch.h"
#include "client/exchange/window_invalidator.h"
#include "runtime/loop/task.h"
#include "wire/dat/dat.h"

namespace dafs::client {

class Exchanger {
 public:
  // `context` must outlive this.
  explicit Exchanger(SessionContext& context);
  Exchanger(const Exchanger&) = delete;
  Exchanger& operator=(const Exchanger&) = delete;

  // Registers the message buffers in the domain of the endpoint. Then, with the endpoint open,
  // posts the receives.
  absl::Status MapBuffers(dat::Domain& domain);
  absl::Status PostReceives() { return receiver_.PostReceives(); }

  // Implements Session::Run.
  Task<absl::Status> Run(wire::CredHandle cred, std::span<CallBase* const> chain,
                         absl::Time deadline);

  // For each turn of the loop; for each completion of a receive, send or invalidation; after the
  // completions of a turn.
  void PostDue() { sender_.PostDue(); }
  void Handle(const dat::Completion& completion);
  void UseFreeSlots();

  // The session ends. Stop stops the timers. ResumeAll then resumes each waiter with why(), when
  // the server cannot access a buffer any more.
  void Stop();
  void ResumeAll();

  Slots& slots() { return slots_; }
  const Slots& slots() const { return slots_; }
  WindowInvalidator& windows() { return windows_; }
  const WindowInvalidator& windows() const { return windows_; }
  uint32_t peer_version() const { return receiver_.peer_version(); }
  absl::Time last_heard() const { return receiver_.last_heard(); }
  void Fill(SessionReport& report) const;

 private:
  Task<absl::Status> RunTogether(wire::CredHandle cred, std::span<CallBase* const> chain,
                                 absl::Time deadline);
  // With GETATTRs at its end, which may need no request.
  Task<absl::Status> RunAttached(wire::CredHandle cred, std::span<CallBase* const> chain,
                                 absl::Time deadline);
  // The chain has waited for slots.
  void NoteQueued(std::span<CallBase* const> chain, absl::Duration time);
  Task<absl::Status> RunOneByOne(wire::CredHandle cred, std::span<CallBase* const> chain,
                                 absl::Time deadline);

  SessionContext& context_;
  MessageBuffers buffers_;
  Slots slots_;
  Exchanges exchanges_;
  WindowInvalidator windows_;
  Sender sender_;
  Receiver receiver_;
  NullRequests nulls_;
  Watch watch_;
};

}  // namespace dafs::client
