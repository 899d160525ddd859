#include "wire/dat/verbs/windows.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dafs::dat::verbs {

absl::StatusOr<Windows::Choice> Windows::Take() {
  if (free_.empty()) {
    if (windows_.size() >= most_) {
      return absl::ResourceExhaustedError(absl::StrCat("bind: ", most_, " windows are in use"));
    }
    MemoryWindow handle(ibv_alloc_mw(protection_domain_, IBV_MW_TYPE_2));
    if (handle == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat("memory window ", windows_.size() + 1,
                                                       " of a connection: ", std::strerror(errno)));
    }
    const uint32_t key = handle->rkey;
    by_name_[NameOf(key)] = windows_.size();
    free_.push_back(windows_.size());
    windows_.push_back({std::move(handle), key, State::kFree});
  }
  Window& window = windows_[free_.back()];
  free_.pop_back();
  window.state = State::kTaken;
  return Choice{window.handle.get(), ibv_inc_rkey(window.key)};
}

Windows::Window* Windows::Find(uint32_t key) {
  const auto at = by_name_.find(NameOf(key));
  if (at == by_name_.end()) return nullptr;
  Window& window = windows_[at->second];
  return window.key == key ? &window : nullptr;
}

void Windows::Free(Window& window) {
  window.state = State::kFree;
  free_.push_back(static_cast<size_t>(&window - windows_.data()));
}

void Windows::Bound(const Choice& choice) {
  Window& window = Chosen(choice);
  window.key = choice.key;
  window.state = State::kBound;
}

void Windows::Untake(const Choice& choice) { Free(Chosen(choice)); }

bool Windows::StartEnding(uint32_t key) {
  Window* window = Find(key);
  if (window == nullptr || window->state != State::kBound) return false;
  window->state = State::kEnding;
  return true;
}

void Windows::Ended(uint32_t key) {
  Window* window = Find(key);
  if (window != nullptr && window->state == State::kEnding) Free(*window);
}

void Windows::PeerEnded(uint32_t key) {
  Window* window = Find(key);
  // A window that is being ended becomes free when our own request completes.
  if (window != nullptr && window->state == State::kBound) Free(*window);
}

void Windows::Clear() {
  free_.clear();
  by_name_.clear();
  windows_.clear();
  most_ = 0;
}

}  // namespace dafs::dat::verbs
