// How a session ends the memory windows that its requests, and the items of batches, opened to the
// server. Spec: 4.2.2; client/memory/exposure.h, wire/dat/dat.h (PostInvalidate).
#include <utility>

#include "client/session/session.h"
#include "client/session/slots.h"
#include "wire/codec/codec.h"

namespace dafs::client {

// Nobody is told that the server has answered before it can reach the buffer no more. Where the
// answer did not bring that about (Send with Invalidate), the window is ended here, and the answer,
// and what comes behind it, waits in its receive buffer.
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

// Asks for the end of `windows`; returns of how many it will be told with `cookie`: the others are
// ended. After an error the session fails.
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

// Of a request that will not be sent.
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
  if (at == holders_.end() || --at->second.ending > 0) return;  // or of a request that was not sent
  absl::AnyInvocable<void()> then = std::move(at->second.then);
  holders_.erase(at);
  then();
}

}  // namespace dafs::client
