#include "client/c/background.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace dafs::c {

Background::Background(Loop& loop, std::function<void()> turned)
    : loop_(loop), turned_(std::move(turned)) {
  // The signals of the program are for its own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Background::~Background() {
  {
    absl::MutexLock lock(&mutex_);
    state_ = State::kEnds;
  }
  thread_.join();
}

void Background::Take() {
  absl::MutexLock lock(&mutex_);
  if (state_ == State::kLent) {  // it has not begun a turn
    state_ = State::kTaken;
    return;
  }
  wanted_.store(true, std::memory_order_relaxed);
  loop_.Post([] {});  // ends its sleep
  mutex_.Await(absl::Condition(
      +[](State* state) { return *state == State::kTaken; }, &state_));
  wanted_.store(false, std::memory_order_relaxed);
}

void Background::Lend() {
  absl::MutexLock lock(&mutex_);
  state_ = State::kLent;
}

void Background::Run() {
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](State* state) { return *state == State::kLent || *state == State::kEnds; }, &state_));
      if (state_ == State::kEnds) return;
      state_ = State::kRuns;
    }
    while (!wanted_.load(std::memory_order_relaxed)) {
      loop_.RunOnce(absl::InfiniteDuration());
      turned_();
    }
    absl::MutexLock lock(&mutex_);
    state_ = State::kTaken;
  }
}

}  // namespace dafs::c
