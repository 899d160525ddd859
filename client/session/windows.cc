// Invalidates the memory windows that requests and batch items opened to the server. Spec: 4.2.2;
// client/memory/exposure.h, wire/dat/dat.h (PostInvalidate).
#include <utility>

#include "client/session/session.h"
#include "client/session/slots.h"
#include "wire/codec/codec.h"

namespace dafs::client {

// A response is delivered only after the server has lost access to the buffer. If the response did
// not invalidate the window (Send with Invalidate), the client invalidates it here. Meanwhile the
// response, and those after it, wait in their receive buffers. Returns true if this one waits, or
// if the session failed.
bool Session::WaitsForWindow(size_t index, uint32_t size_bytes) {
  const std::byte* at = memory_.data() + slots_.size() * send_bytes_ + index * receive_bytes_;
  const std::span<const std::byte> message(at, size_bytes);
  auto decoded = wire::DecodeResponseHeader(message, negotiated_.order);
  absl::StatusOr<Slot*> slot = decoded.ok() ? Match(decoded->header) : decoded.status();
  Response response{index, size_bytes, slot.ok() ? *slot : nullptr};
  if (response.slot != nullptr && !response.slot->windows.empty()) {
    const auto cookie = static_cast<uint64_t>(response.slot - slots_.data());
    absl::StatusOr<uint32_t> ending = PostInvalidates(cookie, response.slot->windows);
    if (!ending.ok()) return true;
    response.slot->ending = *ending;
    response.slot->windows.clear();
  }
  if (waiting_.empty() && (response.slot == nullptr || response.slot->ending == 0)) return false;
  waiting_.push_back(response);
  return true;
}

// Invalidates `windows`. Returns how many completions with `cookie` will follow; the other windows
// are already invalid. After an error the session fails.
absl::StatusOr<uint32_t> Session::PostInvalidates(uint64_t cookie, const WindowContexts& windows) {
  uint32_t count = 0;
  for (const uint32_t context : windows) {
    absl::Status ending = endpoint_->PostInvalidate(cookie, context);
    if (absl::IsNotFound(ending)) continue;
    if (!ending.ok()) {
      Fail(ending);
      return ending;
    }
    ++count;
    ++windows_ended_;
  }
  return count;
}

void Session::WindowEnded(uint64_t cookie) {
  if (cookie >= slots_.size()) return HolderWindowEnded(cookie);
  if (slots_[cookie].ending > 0 && --slots_[cookie].ending > 0) return;
  while (!waiting_.empty() && state_ < State::kDying) {
    const Response response = waiting_.front();
    if (response.slot != nullptr && response.slot->ending > 0) return;
    waiting_.pop_front();
    HandleMessage(response.index, response.size_bytes);
  }
}

// For a request that will not be sent.
void Session::DropWindows(Slot& slot) {
  PostInvalidates(kNobody, slot.windows).IgnoreError();
  slot.windows.clear();
}

void Session::EndWindows(const WindowContexts& windows, absl::AnyInvocable<void()> then) {
  if (state_ >= State::kDying) return;
  const uint64_t cookie = ++last_holder_;
  const absl::StatusOr<uint32_t> ending = PostInvalidates(cookie, windows);
  if (!ending.ok()) return;
  if (*ending == 0) return then();
  holders_.emplace(cookie, Holder{*ending, std::move(then)});
  loop_.Touch(this);
}

void Session::HolderWindowEnded(uint64_t cookie) {
  const auto at = holders_.find(cookie);
  // No holder: the window of a request that was not sent (DropWindows).
  if (at == holders_.end() || --at->second.ending > 0) return;
  absl::AnyInvocable<void()> then = std::move(at->second.then);
  holders_.erase(at);
  then();
}

}  // namespace dafs::client
