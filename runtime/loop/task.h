// Coroutines that await transport completions. A metadata operation or a server procedure reads as
// sequential code and never blocks its loop (docs/threading.md).
// A Task starts when it is awaited or given to Start(), and runs on the thread that resumes it.
// Nothing here is thread-safe: a task, its frame and what it awaits belong to one thread.
#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/base/attributes.h"
#include "runtime/check.h"

namespace dafs {

// Allocates coroutine frames from free lists, one list for each thread and size class. Once the
// lists are warm, starting an operation does not call the allocator.
void* AllocateFrame(size_t size_bytes);
void FreeFrame(void* frame, size_t size_bytes) noexcept;

// The state that the tasks of one operation share. One task sets it, and the tasks that it awaits
// from then on get it, directly or through others; a task that is given to Start() gets none. It
// outlives them. The caller of GetOperation knows its type.
struct OperationState {};

namespace internal {

struct PromiseBase {
  std::coroutine_handle<> continuation = std::noop_coroutine();
  OperationState* operation = nullptr;

  static void* operator new(size_t size) { return AllocateFrame(size); }
  static void operator delete(void* frame, size_t size) { FreeFrame(frame, size); }

  std::suspend_always initial_suspend() noexcept { return {}; }
  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> done) noexcept {
      return done.promise().continuation;
    }
    void await_resume() noexcept {}
  };
  FinalAwaiter final_suspend() noexcept { return {}; }
  [[noreturn]] void unhandled_exception() noexcept {
    __builtin_trap();
  }  // no exceptions of our own
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  std::coroutine_handle<Promise> get_return_object() noexcept {
    return std::coroutine_handle<Promise>::from_promise(*this);
  }
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T Take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  std::coroutine_handle<Promise> get_return_object() noexcept {
    return std::coroutine_handle<Promise>::from_promise(*this);
  }
  void return_void() noexcept {}
  void Take() noexcept {}
};

}  // namespace internal

// The result of a coroutine, to be awaited exactly once: `T value = co_await SomeTask(...)`.
// Destroying an unfinished task destroys its frame. The awaited object must not resume the task
// after that.
template <class T>
class ABSL_MUST_USE_RESULT Task {
 public:
  using promise_type = internal::Promise<T>;

  // Implicit, so that a function with `co_return` returns a Task.
  Task(std::coroutine_handle<promise_type> handle) noexcept  // NOLINT(google-explicit-constructor)
      : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  template <class Caller>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Caller> caller) noexcept {
    handle_.promise().continuation = caller;
    if constexpr (std::is_base_of_v<internal::PromiseBase, Caller>) {
      handle_.promise().operation = caller.promise().operation;
    }
    return handle_;
  }
  T await_resume() { return handle_.promise().Take(); }

 private:
  std::coroutine_handle<promise_type> handle_;
};

namespace internal {

// Runs a Task<void> to its end and then frees itself.
struct Detached {
  struct promise_type {
    static void* operator new(size_t size) { return AllocateFrame(size); }
    static void operator delete(void* frame, size_t size) { FreeFrame(frame, size); }
    Detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    [[noreturn]] void unhandled_exception() noexcept { __builtin_trap(); }
  };
};

}  // namespace internal

// Runs `task` until its first wait. After that, the awaited object resumes it. The frame frees
// itself.
inline internal::Detached Start(Task<void> task) { co_await task; }

// `co_await SetOperation(&state)` in a task; null: it belongs to no operation. Does not wait.
class SetOperation {
 public:
  explicit SetOperation(OperationState* operation) : operation_(operation) {}
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> task) noexcept {
    task.promise().operation = operation_;
    return false;
  }
  void await_resume() const noexcept {}

 private:
  OperationState* operation_;
};

// `OperationState* operation = co_await GetOperation();` in a task; null: none. Does not wait.
class GetOperation {
 public:
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> task) noexcept {
    operation_ = task.promise().operation;
    return false;
  }
  OperationState* await_resume() const noexcept { return operation_; }

 private:
  OperationState* operation_ = nullptr;
};

// A value that is set once. One coroutine awaits it; Set() stores the value and resumes the
// coroutine before it returns. Set may come before the wait. Lives in the awaiting coroutine's
// frame or outlives that frame.
template <class T>
class Pending {
 public:
  Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  // Call once. Resumes the waiter before returning; `this` may be destroyed by then.
  void Set(T value) {
    DAFS_CHECK(!value_.has_value(), "Pending::Set called twice");
    value_.emplace(std::move(value));
    if (waiter_) std::exchange(waiter_, nullptr).resume();
  }
  bool is_set() const { return value_.has_value(); }

  bool await_ready() const noexcept { return value_.has_value(); }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { waiter_ = waiter; }
  T await_resume() { return std::move(*value_); }

 private:
  std::optional<T> value_;
  std::coroutine_handle<> waiter_;
};

}  // namespace dafs
