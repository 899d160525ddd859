#include "server/clients/fetched_locations.h"

#include <algorithm>
#include <utility>

namespace dafs::server {

void FetchedLocations::Fetched(size_t export_index, Locations locations, const Now& now) {
  absl::MutexLock lock(&mutex_);
  fetched_[export_index] = std::move(locations);
  CompareAll(now);
}

void FetchedLocations::Compare(const Now& now) {
  absl::MutexLock lock(&mutex_);
  CompareAll(now);
}

// Reads the present value under the mutex, so that a later call sees a later one.
void FetchedLocations::CompareAll(const Now& now) {
  changed_.store(std::any_of(fetched_.begin(), fetched_.end(),
                             [&now](const auto& one) { return one.second != now(one.first); }),
                 std::memory_order_relaxed);
}

}  // namespace dafs::server
