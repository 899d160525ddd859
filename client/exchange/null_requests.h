// Sends NULL requests for a session's own purposes: to probe a silent server, and to return
// credits. Spec: 3.2.6.4.2, 6.2.10. Belongs to the thread of the session's loop.
#pragma once

#include <span>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "client/exchange/call.h"
#include "client/exchange/link.h"
#include "client/exchange/slots.h"
#include "runtime/loop/task.h"

namespace dafs::client {

class NullRequests {
 public:
  // Sends a chain that needs no credential, and returns the result that Session::Run describes.
  using RunFunction = absl::AnyInvocable<Task<absl::Status>(std::span<CallBase* const> chain)>;

  // All must outlive this.
  NullRequests(const Link& link, const Slots& slots, RunFunction run)
      : link_(link), slots_(slots), run_(std::move(run)) {}
  NullRequests(const NullRequests&) = delete;
  NullRequests& operator=(const NullRequests&) = delete;

  // Sends one, unless an earlier probe is unanswered. Its answer shows that the server lives.
  void Probe();
  // Returns credits if the server aims at fewer than the client has, and the client is idle. Each
  // request lets the server take back one.
  void ReturnCredits();

 private:
  Task<absl::Status> Send();
  Task<void> SendProbe();
  Task<void> SendUntilAtTarget();

  const Link& link_;
  const Slots& slots_;
  RunFunction run_;
  bool probing_ = false;
  bool returning_ = false;
};

}  // namespace dafs::client
