// Runs a loop until a task has ended, for tests and for programs that do one thing at a time. Call
// on the loop's own thread, outside the loop's callbacks.
#pragma once

#include <optional>
#include <utility>

#include "runtime/loop.h"
#include "runtime/task.h"

namespace dafs::client {

namespace internal {
template <class T>
dat::Task<void> Keep(dat::Task<T> task, std::optional<T>* result) {
  result->emplace(co_await task);
}
inline dat::Task<void> Note(dat::Task<void> task, bool* done) {
  co_await task;
  *done = true;
}
}  // namespace internal

// Awaits `task` on `loop` by running the loop on this thread. Returns the task's result.
template <class T>
T RunUntilDone(dat::Loop& loop, dat::Task<T> task) {
  std::optional<T> result;
  dat::Start(internal::Keep(std::move(task), &result));
  while (!result.has_value()) loop.RunOnce(absl::InfiniteDuration());
  return *std::move(result);
}
inline void RunUntilDone(dat::Loop& loop, dat::Task<void> task) {
  bool done = false;
  dat::Start(internal::Note(std::move(task), &done));
  while (!done) loop.RunOnce(absl::InfiniteDuration());
}

}  // namespace dafs::client
