// An awaitable that is ready: what a transfer inside the message awaits where a direct one waits
// for the client. It costs nothing.
#pragma once

namespace dafs::server {

// `co_await Ready(value)` is `value`.
template <class T>
struct Ready {
  T value;

  constexpr bool await_ready() const noexcept { return true; }
  template <class Handle>
  constexpr void await_suspend(Handle) const noexcept {}
  constexpr T await_resume() const noexcept { return value; }
};

}  // namespace dafs::server
