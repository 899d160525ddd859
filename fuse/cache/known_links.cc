#include "fuse/cache/known_links.h"

namespace dafs::fuse {

void KnownLinks::Told(const Place& place, const Link& link) {
  absl::MutexLock lock(&mutex_);
  if (links_.size() >= kMost && !links_.contains(place)) {
    absl::erase_if(links_, [&](const auto& known) { return known.second.until <= link.asked; });
    // Evict several at once, so that not every new name scans all of them.
    for (auto it = links_.begin(); links_.size() > kLeft;) links_.erase(it++);
  }
  links_[place] = link;
  count_.store(links_.size(), std::memory_order_relaxed);
}

KnownLinks::Link KnownLinks::Find(const Place& place, absl::Time now) const {
  if (empty()) return {};
  absl::MutexLock lock(&mutex_);
  auto known = links_.find(place);
  return known == links_.end() || known->second.until <= now ? Link() : known->second;
}

}  // namespace dafs::fuse
