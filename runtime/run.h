// Runs a loop until a task has ended: for programs that do one thing after the other, and tests.
// On the loop's own thread, outside of its callbacks.
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

// The result of `task`, which is awaited on `loop` by this thread.
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
