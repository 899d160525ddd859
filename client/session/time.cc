// Timed work of a session: ends requests at their deadline, probes a silent server, and returns
// credits that it does not need. Spec: 3.2.6.4.2.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/session/slots.h"
#include "runtime/log.h"

namespace dafs::client {
namespace {

constexpr absl::Duration kTick = absl::Seconds(1);
constexpr absl::Duration kWarnAfter = absl::Seconds(30);  // "still waiting" in the log

}  // namespace

void Session::StartTicking() {
  if (tick_ != 0) return;
  absl::Duration period = kTick;
  const ClientOptions& options = client_.options();
  if (options.soft) period = std::min(period, options.timeout / 4);
  period = std::min({period, options.silence / 4, options.connect_timeout / 4});
  tick_ = loop_.RunAfter(std::max(period, absl::Milliseconds(1)), [this] {
    tick_ = 0;
    Tick();
  });
}

// Ends the wait for `exchange`. Responses may still arrive, so the slots stay taken and the buffers
// pinned.
void Session::Abandon(Exchange& exchange) {
  for (Slot& slot : slots_) {
    if (slot.exchange != &exchange) continue;
    slot.exchange = nullptr;
    slot.call = nullptr;
    if (slot.expects_answer) ++totals_[slot.proc].lost;
  }
}

void Session::Tick() {
  // Die resumes all waiters when the server cannot access buffers any more, not earlier.
  if (state_ == State::kDying) return StartTicking();
  const absl::Time now = dat::Loop::Now();
  for (Exchange* e = first_exchange_; e != nullptr;) {
    if (now >= e->deadline) {
      Abandon(*e);
      Finish(*e, absl::DeadlineExceededError(absl::StrCat(
                     NamesOf(e->chain), ": no answer from ", peer_.ToString(), " for ",
                     absl::FormatDuration(absl::Trunc(now - e->since, absl::Milliseconds(1))))));
      e = first_exchange_;  // the list may have changed
      continue;
    }
    if (!e->warned && now - e->since >= kWarnAfter) {
      e->warned = true;
      LogWarning(absl::StrCat(client_.options().server_name, ": no answer to ", NamesOf(e->chain),
                              " from ", peer_.ToString(), " for ",
                              absl::FormatDuration(absl::Trunc(now - e->since, kTick)),
                              "; still waiting"));
    }
    e = e->next;
  }
  SlotWaiter* before = nullptr;
  for (SlotWaiter* w = first_waiter_; w != nullptr;) {
    if (now < w->deadline) {
      before = w;
      w = w->next;
      continue;
    }
    (before != nullptr ? before->next : first_waiter_) = w->next;
    if (last_waiter_ == w) last_waiter_ = before;
    w->status = absl::DeadlineExceededError(
        absl::StrCat("no request slot for ", peer_.ToString(), ": all ", in_flight_, " are taken"));
    w->waiter.resume();
    before = nullptr;
    w = first_waiter_;
  }
  ServeSlotWaiters();  // there may be enough slots for the remaining waiters
  CheckSilence(now);
  if (in_flight_ > 0 || first_waiter_ != nullptr) StartTicking();
}

// Fails the session after `silence` without any response. Sends NULL after half of that time: a
// server that is busy with one long COMMIT still answers NULL.
void Session::CheckSilence(absl::Time now) {
  if (state_ != State::kUp || in_flight_ == 0) return;
  absl::Time oldest = now;
  for (const Slot& slot : slots_) {
    if (slot.expects_answer) oldest = std::min(oldest, slot.posted);
  }
  absl::Duration silent = now - std::max(oldest, last_heard_);
  const absl::Duration most = client_.options().silence;
  if (silent >= most) {
    Fail(absl::UnavailableError(absl::StrCat("no answer from ", peer_.ToString(), " for ",
                                             absl::FormatDuration(absl::Trunc(silent, kTick)))));
  } else if (silent >= most / 2 && !probing_) {
    probing_ = true;
    dat::Start(Probe());
  }
}

dat::Task<void> Session::Probe() {
  Call<wire::NullArgs> null;
  CallBase* const chain[] = {&null};
  dat::Task<absl::Status> task = Run(wire::CredHandle(), chain, absl::InfiniteFuture());
  absl::Status status = co_await task;
  probing_ = false;
}

// Spec: 3.2.6.4.2: if the server aims at fewer credits and the client is idle, the client sends
// NULL requests. Each one lets the server take back one credit.
void Session::MaybeShrink() {
  if (state_ != State::kUp || shrinking_ || target_nreq_ >= nreq_ || in_flight_ > 0) return;
  shrinking_ = true;
  dat::Start(Shrink());
}

dat::Task<void> Session::Shrink() {
  while (state_ == State::kUp && target_nreq_ < nreq_ && first_waiter_ == nullptr) {
    Call<wire::NullArgs> null;
    CallBase* const chain[] = {&null};
    dat::Task<absl::Status> task = Run(wire::CredHandle(), chain, absl::InfiniteFuture());
    absl::Status status = co_await task;
    if (!status.ok()) break;
  }
  shrinking_ = false;
}

}  // namespace dafs::client
