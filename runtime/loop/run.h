// Runs a loop until a task has ended, for tests and for programs that do one thing at a time. Call
// on the loop's own thread, outside the loop's callbacks.
#pragma once

#include <optional>
#include <utility>

#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"

namespace dafs {

namespace internal {
template <class T>
Task<void> Keep(Task<T> task, std::optional<T>* result) {
  result->emplace(co_await task);
}
inline Task<void> Note(Task<void> task, bool* done) {
  co_await task;
  *done = true;
}
}  // namespace internal

// Awaits `task` on `loop` by running the loop on this thread. Returns the task's result.
template <class T>
T RunUntilDone(Loop& loop, Task<T> task) {
  std::optional<T> result;
  Start(internal::Keep(std::move(task), &result));
  while (!result.has_value()) loop.RunOnce(absl::InfiniteDuration());
  return *std::move(result);
}
inline void RunUntilDone(Loop& loop, Task<void> task) {
  bool done = false;
  Start(internal::Note(std::move(task), &done));
  while (!done) loop.RunOnce(absl::InfiniteDuration());
}

}  // namespace dafs
