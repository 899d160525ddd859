#include "client/exchange/watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/size_text.h"

namespace dafs::client {
namespace {

constexpr absl::Duration kTick = absl::Seconds(1);
constexpr absl::Duration kWarnAfter = absl::Seconds(30);  // "still waiting" in the log

}  // namespace

Watch::Watch(SessionContext& context, Slots& slots, Exchanges& exchanges, const Receiver& receiver,
             absl::AnyInvocable<void()> probe)
    : context_(context),
      slots_(slots),
      exchanges_(exchanges),
      receiver_(receiver),
      probe_(std::move(probe)) {}

void Watch::Start() {
  if (tick_ != 0) return;
  absl::Duration period = kTick;
  const ClientOptions& options = context_.client.options();
  if (options.soft) period = std::min(period, options.timeout / 4);
  period = std::min({period, options.silence / 4, options.connect_timeout / 4});
  tick_ = context_.loop.RunAfter(std::max(period, absl::Milliseconds(1)), [this] {
    tick_ = 0;
    Tick();
  });
}

void Watch::Stop() { context_.loop.Cancel(std::exchange(tick_, 0)); }

void Watch::Tick() {
  const Link& link = context_.link;
  // The end of the session resumes all waiters when the server cannot access buffers any more, not
  // earlier.
  if (link.state() == Link::State::kDying) return Start();
  const absl::Time now = Loop::Now();
  EndOverdueExchanges(now);
  slots_.EndOverdue(now);
  // There may be enough slots for the remaining waiters.
  while (link.usable() && slots_.ServeFirst()) {
  }
  CheckSilence(now);
  if (slots_.taken() > 0 || slots_.has_waiters()) Start();
}

void Watch::EndOverdueExchanges(absl::Time now) {
  for (Exchange* exchange = exchanges_.first(); exchange != nullptr;) {
    if (now < exchange->deadline) {
      Warn(*exchange, now);
      exchange = exchanges_.Next(*exchange);
      continue;
    }
    Abandon(*exchange);
    exchanges_.Wake(*exchange,
                    absl::DeadlineExceededError(absl::StrCat(
                        NamesOf(exchange->chain), ": no answer from ", context_.peer.ToString(),
                        " for ", MillisecondsText(now - exchange->since))));
    exchange = exchanges_.first();  // the queue may have changed
  }
}

void Watch::Warn(Exchange& exchange, absl::Time now) {
  if (exchange.warned || now - exchange.since < kWarnAfter) return;
  exchange.warned = true;
  LogWarning(absl::StrCat(context_.client.options().server_name, ": no answer to ",
                          NamesOf(exchange.chain), " from ", context_.peer.ToString(), " for ",
                          absl::FormatDuration(absl::Trunc(now - exchange.since, kTick)),
                          "; still waiting"));
}

// Ends the wait for `exchange`. Responses may still arrive, so the slots stay taken and the buffers
// pinned.
void Watch::Abandon(Exchange& exchange) {
  for (Slot& slot : slots_.all()) {
    if (slot.exchange != &exchange) continue;
    slot.exchange = nullptr;
    slot.call = nullptr;
    if (slot.expects_answer) ++context_.totals[slot.proc].lost;
  }
}

// Fails the session after `silence` without any response. Sends NULL after half of that time: a
// server that is busy with one long COMMIT still answers NULL.
void Watch::CheckSilence(absl::Time now) {
  if (context_.link.state() != Link::State::kUp || slots_.taken() == 0) return;
  absl::Time oldest = now;
  for (const Slot& slot : slots_.all()) {
    if (slot.expects_answer) oldest = std::min(oldest, slot.posted);
  }
  const absl::Duration silent = now - std::max(oldest, receiver_.last_heard());
  const absl::Duration most = context_.client.options().silence;
  if (silent >= most) {
    context_.link.Fail(
        absl::UnavailableError(absl::StrCat("no answer from ", context_.peer.ToString(), " for ",
                                            absl::FormatDuration(absl::Trunc(silent, kTick)))));
  } else if (silent >= most / 2) {
    probe_();
  }
}

}  // namespace dafs::client
