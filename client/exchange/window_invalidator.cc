#include "client/exchange/window_invalidator.h"

#include <utility>

namespace dafs::client {

bool WindowInvalidator::Delays(const Response& response) {
  Slot* const slot = response.slot;
  if (slot != nullptr && !slot->windows.empty()) {
    absl::StatusOr<uint32_t> ending = Post(slots_.IndexOf(*slot), slot->windows);
    if (!ending.ok()) return true;
    slot->ending = *ending;
    slot->windows.clear();
  }
  if (waiting_.empty() && (slot == nullptr || slot->ending == 0)) return false;
  waiting_.push_back(response);
  return true;
}

// Invalidates `windows`. Returns how many completions with `cookie` will follow; the other windows
// are already invalid. After an error the session fails.
absl::StatusOr<uint32_t> WindowInvalidator::Post(uint64_t cookie, const WindowContexts& windows) {
  uint32_t count = 0;
  for (const uint32_t context : windows) {
    absl::Status ending = link_.endpoint().PostInvalidate(cookie, context);
    if (absl::IsNotFound(ending)) continue;
    if (!ending.ok()) {
      link_.Fail(ending);
      return ending;
    }
    ++count;
    ++ended_;
  }
  return count;
}

void WindowInvalidator::OnInvalidated(uint64_t cookie) {
  if (cookie >= slots_.size()) return HolderWindowEnded(cookie);
  Slot& slot = slots_[cookie];
  if (slot.ending > 0) --slot.ending;
}

std::optional<WindowInvalidator::Response> WindowInvalidator::NextReady() {
  if (waiting_.empty()) return std::nullopt;
  Response response = waiting_.front();
  if (response.slot != nullptr && response.slot->ending > 0) return std::nullopt;
  waiting_.pop_front();
  return response;
}

void WindowInvalidator::Drop(Slot& slot) {
  Post(kNobody, slot.windows).IgnoreError();
  slot.windows.clear();
}

void WindowInvalidator::End(const WindowContexts& windows, absl::AnyInvocable<void()> then) {
  if (!link_.usable()) return;
  const uint64_t cookie = ++last_holder_;
  const absl::StatusOr<uint32_t> ending = Post(cookie, windows);
  if (!ending.ok()) return;
  if (*ending == 0) return then();
  holders_.emplace(cookie, Holder{*ending, std::move(then)});
  link_.RequestPoll();
}

void WindowInvalidator::HolderWindowEnded(uint64_t cookie) {
  const auto at = holders_.find(cookie);
  // No holder: the window of a request that was not sent (Drop).
  if (at == holders_.end() || --at->second.ending > 0) return;
  absl::AnyInvocable<void()> then = std::move(at->second.then);
  holders_.erase(at);
  then();
}

void WindowInvalidator::Clear() {
  waiting_.clear();
  holders_.clear();
}

}  // namespace dafs::client
