#include "client/preload/state.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace dafs::preload {
namespace {

std::atomic<State*> the_state{nullptr};
std::atomic<bool> has_no_state{false};
std::atomic<bool> was_used{false};  // a fork copies it
thread_local int inside __attribute__((tls_model("initial-exec"))) = 0;

State* MakeState() {
  // Zero pages are an empty State. They are never unmapped: threads use it until the process ends.
  void* const memory =
      mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || madvise(memory, sizeof(State), MADV_WIPEONFORK) != 0) {
    if (memory != MAP_FAILED) munmap(memory, sizeof(State));
    has_no_state = true;
    return nullptr;
  }
  State* expected = nullptr;
  auto* const made = static_cast<State*>(memory);
  if (the_state.compare_exchange_strong(expected, made)) return made;
  munmap(memory, sizeof(State));
  return expected;
}

}  // namespace

State* GetState() {
  State* state = the_state.load();
  if (state == nullptr) {
    if (has_no_state) return nullptr;
    const int before = errno;
    state = MakeState();
    errno = before;
    if (state == nullptr) return nullptr;
  }
  if (state->process.load(std::memory_order_relaxed) == 0) {
    if (was_used) return nullptr;
    state->process = getpid();
  }
  return state->abandoned.load(std::memory_order_relaxed) ? nullptr : state;
}

void NoteUse() { was_used = true; }

bool IsInside() { return inside != 0; }

Inside::Inside() {
  errno_ = errno;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  ++inside;
}

Inside::~Inside() {
  --inside;
  int ignored = 0;
  pthread_setcancelstate(cancel_state_, &ignored);
  errno = errno_;
}

State::Lane* TakeLane(State& state) {
  // Each thread has its own thread_local, at least a page from those of others.
  const size_t first = reinterpret_cast<uintptr_t>(&inside) / 4096;
  for (size_t i = 0; i < State::kLanes; ++i) {
    State::Lane& lane = state.lanes[(first + i) % State::kLanes];
    if (!lane.is_used.exchange(true)) return &lane;
  }
  return nullptr;
}

}  // namespace dafs::preload
