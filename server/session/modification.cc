#include "server/session/modification.h"

#include <atomic>
#include <memory>
#include <utility>

#include "server/session/directives/callbacks.h"
#include "server/session/session.h"
#include "server/store/holdings/delegations/delegations.h"
#include "server/store/holdings/promises/promises.h"

namespace dafs::server {
namespace {

// Wakes the request after `count` answers.
class Answers final : public CallGroup {
 public:
  Answers(size_t count, LoopWait::Waker waker) : left_(count), waker_(std::move(waker)) {}

  void Answered() override {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) waker_.Wake();
  }

 private:
  std::atomic<size_t> left_;
  const LoopWait::Waker waker_;
};

}  // namespace

Modification::Modification(Session& session, Caller& caller)
    : session_(session),
      caller_(caller),
      changing_(session.store().promises(), caller.promisee, caller.client_name) {
  caller.changing = &changing_;
  caller.awaited = &awaited_;
}

bool Modification::MustCall(wire::DafsStatus status) {
  repeats_ = status == wire::DafsStatus::kDelay;
  if (!repeats_ && status != wire::DafsStatus::kOk) return false;
  const bool awaits_return = repeats_ && changing_.awaits_return();
  if (!repeats_) awaited_.clear();
  if (!changing_.has_calls() && awaited_.empty() && !awaits_return) {
    return false;  // DELAY for another reason
  }
  if (waits_ == kMostWaits) return false;
  calls_ = changing_.TakeCalls();
  caller_.recent = nullptr;  // the turn ends before the wait
  return true;
}

Task<bool> Modification::Call() {
  ++waits_;
  LoopWait wait(session_.loop());
  const bool awaits_return = repeats_ && changing_.awaits_return();
  const AwaitedDelegations awaited = std::exchange(awaited_, {});
  const auto answers = std::make_shared<Answers>(
      calls_.size() + awaited.size() + (awaits_return ? 1 : 0), wait.waker());
  session_.shared().callbacks->Call(std::exchange(calls_, {}), answers);
  for (const AwaitedDelegation& each : awaited) {
    session_.store().delegations().Await(each, [answers] { answers->Answered(); });
  }
  if (awaits_return) {
    session_.store().promises().AwaitReturn(caller_.client_name,
                                            [answers] { answers->Answered(); });
  }
  Task<bool> waiting = session_.holder_waits().Await(wait);
  const bool answered = co_await waiting;
  co_return answered;
}

Task<bool> HolderWaits::Await(LoopWait& wait) {
  if (ended_) co_return false;
  waits_.insert(&wait);
  const absl::Status status = co_await wait.Wait();
  waits_.erase(&wait);
  co_return status.ok();
}

void HolderWaits::End() {
  ended_ = true;
  while (!waits_.empty()) {
    LoopWait& wait = **waits_.begin();
    waits_.erase(waits_.begin());
    wait.End(absl::UnavailableError("the session has ended"));
  }
}

}  // namespace dafs::server
