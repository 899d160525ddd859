// An outstanding chain: which responses are missing, and the coroutine that waits for them. Lives
// in that coroutine's frame. Spec: 4.3. Belongs to the thread of the session's loop.
#pragma once

#include <cstddef>
#include <span>

#include "absl/time/time.h"
#include "client/exchange/call.h"
#include "runtime/loop/wait_queue.h"

namespace dafs::client {

// Awaiting it returns the result that Session::Run describes.
struct Exchange : Waiter {
  Exchange(std::span<CallBase* const> calls, absl::Time end) : chain(calls), deadline(end) {}

  const std::span<CallBase* const> chain;
  const absl::Time deadline;
  absl::Time since;  // when it was encoded
  size_t unanswered = 0;
  bool damaged = false;  // a response had a bad checksum
  bool warned = false;   // "still waiting" was logged
};

// The exchanges of a session, the oldest first.
using Exchanges = WaitQueue<Exchange>;

}  // namespace dafs::client
