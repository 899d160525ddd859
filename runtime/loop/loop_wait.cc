#include "runtime/loop/loop_wait.h"

namespace dafs {

void LoopWait::Waker::Wake() const {
  loop_->Post([weak = state_] {
    const std::shared_ptr<State> state = weak.lock();
    if (state == nullptr) return;
    state->woken = true;
    state->list.WakeAll(absl::OkStatus());
  });
}

void LoopWait::End(const absl::Status& status) {
  const std::shared_ptr<State> state = state_;  // the coroutine may destroy this object
  state->list.WakeAll(status);
}

}  // namespace dafs
