#include "fuse/mount/worker_ending.h"

#include <utility>

#include "runtime/log/log.h"

namespace dafs::fuse {

bool WorkerEnding::Begin() {
  if (std::exchange(has_begun_, true)) return false;
  began_at_ = Loop::Now();
  return true;
}

void WorkerEnding::Drain() {
  timer_ = context_.loop->RunAfter(kDrainFor, [this] { DrainLate(); });
  if (context_.operations.has_value()) {
    context_.operations->CommitAll([this] { CallDone(); });
  } else {
    CallDone();
  }
}

bool WorkerEnding::Committing() const {
  return context_.operations.has_value() && !context_.operations->AllCommitted();
}

void WorkerEnding::DrainLate() {
  timer_ = 0;
  if (Committing() && context_.files->Report().session.up && Loop::Now() - began_at_ < kCommitFor) {
    timer_ = context_.loop->RunAfter(kDrainFor, [this] { DrainLate(); });
    return;
  }
  if (Committing()) {
    LogWarning(context_.state.options.source.text +
               ": unmounted before the server had all data on its disk; the rest is lost if the "
               "server's machine fails before it has written it");
  }
  Farewell();
}

void WorkerEnding::CallDoneAtEnd() {
  if (context_.calls.size() != 0 || Committing()) return;
  // Posted, because the last call is still on the stack.
  context_.loop->Post([this] { Farewell(); });
}

void WorkerEnding::Farewell() {
  if (std::exchange(farewell_, true)) return;
  context_.loop->Cancel(timer_);
  timer_ = context_.loop->RunAfter(kFarewellFor, [this] { context_.loop->Stop(); });
  dafs::Start(SayFarewell());
}

Task<void> WorkerEnding::SayFarewell() {
  co_await context_.user_files->Disconnect();
  context_.loop->Stop();
}

}  // namespace dafs::fuse
