#include "runtime/latency.h"

#include <numeric>

#include "runtime/latency_quantile.h"

namespace dafs {

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  total_ns_ += other.total_ns_;
  longest_ns_ = std::max(longest_ns_, other.longest_ns_);
}

uint64_t LatencyHistogram::count() const {
  return std::accumulate(buckets_.begin(), buckets_.end(), uint64_t{0});
}

absl::Duration LatencyHistogram::Mean() const {
  const uint64_t all = count();
  return all > 0 ? total() / static_cast<int64_t>(all) : absl::ZeroDuration();
}

absl::Duration LatencyHistogram::Quantile(double quantile) const {
  const double us = QuantileUs(buckets_, quantile);
  // The last bucket has no upper bound.
  if (us > static_cast<double>(uint64_t{1} << (kBuckets - 2))) return longest();
  return std::min(absl::Microseconds(us), longest());
}

std::vector<uint64_t> LatencyHistogram::Counts() const {
  size_t used = kBuckets;
  while (used > 0 && buckets_[used - 1] == 0) --used;
  return {buckets_.begin(), buckets_.begin() + static_cast<ptrdiff_t>(used)};
}

std::vector<uint64_t> LatencyHistogram::BoundsUs() {
  std::vector<uint64_t> bounds;
  for (size_t i = 0; i + 1 < kBuckets; ++i) bounds.push_back(uint64_t{1} << i);
  return bounds;
}

}  // namespace dafs
