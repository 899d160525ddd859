#include "fuse/files/idle_opens.h"

#include <algorithm>
#include <utility>

#include "fuse/kernel/protocol.h"

namespace dafs::fuse {
namespace {

// The server may still grant this open a lock for which the program no longer waits.
bool IsUsableAgain(const OpenState& open) {
  return !open.state_id.is_zero() && ShareOf(open.flags) == wire::kShareRead &&
         open.change.has_value() && !open.locked.load(std::memory_order_relaxed);
}

bool IsOpenedLike(const OpenState& open, uint32_t flags) {
  return ShareOf(flags) == ShareOf(open.flags) &&
         (flags & kOpenForExec) == (open.flags & kOpenForExec);
}

}  // namespace

IdleOpens::IdleOpens() {
  absl::MutexLock lock(&mutex_);
  kept_.reserve(kMost);
}

IdleOpens::Open IdleOpens::Keep(Open open, absl::Time now) {
  if (!IsUsableAgain(*open)) return open;
  absl::MutexLock lock(&mutex_);
  if (stopped_) return open;
  Changing& changing = changing_[open->nodeid % changing_.size()];
  if (changing.nodeid == open->nodeid && changing.not_kept > 0) {
    --changing.not_kept;
    return open;
  }
  Open oldest;
  if (kept_.size() == kMost) {
    oldest = std::move(kept_.front().open);
    kept_.erase(kept_.begin());
  }
  kept_.push_back({std::move(open), now});
  return oldest;
}

std::optional<IdleOpens::Kept> IdleOpens::Take(uint64_t nodeid, const client::Identity& who,
                                               uint32_t flags, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
    return kept.open->nodeid == nodeid && IsOpenedLike(*kept.open, flags) &&
           now - kept.since < kFor && *kept.open->opener == who;
  });
  if (found == kept_.end()) return std::nullopt;
  Kept kept = std::move(*found);
  kept_.erase(found);
  return kept;
}

template <class F>
std::vector<IdleOpens::Open> IdleOpens::TakeIf(F&& condition) {
  std::vector<Open> taken;
  std::erase_if(kept_, [&](Kept& kept) {
    if (!condition(kept)) return false;
    taken.push_back(std::move(kept.open));
    return true;
  });
  return taken;
}

std::vector<IdleOpens::Open> IdleOpens::HasChanged(uint64_t nodeid) {
  absl::MutexLock lock(&mutex_);
  changing_[nodeid % changing_.size()] = {nodeid, kNotKept};
  return TakeIf([&](const Kept& kept) { return kept.open->nodeid == nodeid; });
}

std::vector<IdleOpens::Open> IdleOpens::TakeOld(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  return TakeIf([&](const Kept& kept) { return now - kept.since >= kFor; });
}

std::optional<absl::Time> IdleOpens::NextOld() const {
  absl::MutexLock lock(&mutex_);
  if (kept_.empty()) return std::nullopt;
  return kept_.front().since + kFor;
}

std::vector<IdleOpens::Open> IdleOpens::TakeAll() {
  absl::MutexLock lock(&mutex_);
  return TakeIf([](const Kept&) { return true; });
}

std::vector<IdleOpens::Open> IdleOpens::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  return TakeIf([](const Kept&) { return true; });
}

bool IsAsOpened(const OpenState& open, const wire::FileAttributes& now) {
  return open.change.has_value() && now.has(wire::kFattrChange) && now.change == *open.change &&
         now.mode == open.mode && now.owner == open.owner && now.owner_group == open.owner_group;
}

}  // namespace dafs::fuse
