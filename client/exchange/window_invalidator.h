// Invalidates the memory windows that requests and batch items opened to the server. A response is
// delivered only after the server has lost access to the buffers of its request. If the response
// did not invalidate the windows (Send with Invalidate), the client does so here. Meanwhile the
// response, and those after it, wait in their receive buffers.
// Spec: 4.2.2; client/memory/remote_access.h, wire/dat/dat.h (PostInvalidate).
//
// Belongs to the thread of the session's loop. Nothing allocates, except for batch items and for
// responses that wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "client/exchange/link.h"
#include "client/exchange/slots.h"
#include "client/memory/remote_access.h"

namespace dafs::client {

class WindowInvalidator {
 public:
  // Both must outlive this.
  WindowInvalidator(Link& link, Slots& slots) : link_(link), slots_(slots) {}
  WindowInvalidator(const WindowInvalidator&) = delete;
  WindowInvalidator& operator=(const WindowInvalidator&) = delete;

  // Each request has windows for its buffers. Call before the first one.
  void Use() { used_ = true; }
  bool used() const { return used_; }
  uint64_t ended() const { return ended_; }  // by the client

  // A response in a receive buffer.
  struct Response {
    size_t index = 0;  // of the receive
    uint32_t size_bytes = 0;
    Slot* slot = nullptr;  // of its request; null: matches no request
  };
  // Invalidates the windows of the request. Returns true if the response has to wait, for them or
  // for an earlier response (NextReady returns it later), or if the session failed.
  bool Delays(const Response& response);
  // Call on kInvalidated, then take what is ready.
  void OnInvalidated(uint64_t cookie);
  // Returns the next response that has waited and can be delivered now.
  std::optional<Response> NextReady();

  // Invalidates the windows of a request that will not be sent.
  void Drop(Slot& slot);
  // Implements Session::EndWindows.
  void End(const WindowContexts& windows, absl::AnyInvocable<void()> then);
  // The connection has ended, and with it all windows.
  void Clear();

 private:
  // A caller that waits for its windows to be invalidated.
  struct Holder {
    uint32_t ending = 0;
    absl::AnyInvocable<void()> then;
  };
  static constexpr uint64_t kNobody = ~uint64_t{0};

  absl::StatusOr<uint32_t> Post(uint64_t cookie, const WindowContexts& windows);
  void HolderWindowEnded(uint64_t cookie);

  Link& link_;
  Slots& slots_;
  bool used_ = false;
  uint64_t ended_ = 0;
  std::deque<Response> waiting_;  // in order of arrival
  // By cookie. These cookies are above those of slots, which are their indices.
  absl::flat_hash_map<uint64_t, Holder> holders_;
  uint64_t last_holder_ = uint64_t{1} << 32;
};

}  // namespace dafs::client
