// A histogram of durations, from which means and quantiles are computed. The bounds of its buckets
// are powers of two of microseconds, so histograms of several threads and machines can be added.
// A value; 280 bytes. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace dafs {

class LatencyHistogram {
 public:
  // Bucket 0 counts durations below 1 us, bucket i those from 2^(i-1) us to below 2^i us. The last
  // one also counts all longer durations: from 18 minutes on.
  static constexpr size_t kBuckets = 32;

  void Add(absl::Duration took, uint64_t times = 1) {
    const int64_t ns = std::max<int64_t>(absl::ToInt64Nanoseconds(took), 0);
    const auto us = static_cast<uint64_t>(ns) / 1000;
    buckets_[std::min<size_t>(static_cast<size_t>(std::bit_width(us)), kBuckets - 1)] += times;
    total_ns_ += ns * static_cast<int64_t>(times);
    longest_ns_ = std::max(longest_ns_, ns);
  }
  void Merge(const LatencyHistogram& other);

  uint64_t count() const;
  absl::Duration total() const { return absl::Nanoseconds(total_ns_); }
  absl::Duration longest() const { return absl::Nanoseconds(longest_ns_); }
  absl::Duration Mean() const;  // zero if it is empty
  // An estimate of the duration that the part `quantile` (0 to 1) does not exceed. It lies in the
  // right bucket, and never above longest(). Zero if the histogram is empty.
  absl::Duration Quantile(double quantile) const;

  // The counts, without zeros at the end.
  std::vector<uint64_t> Counts() const;
  // The upper bounds, exclusive, of all buckets but the last, in microseconds.
  static std::vector<uint64_t> BoundsUs();

 private:
  std::array<uint64_t, kBuckets> buckets_{};
  int64_t total_ns_ = 0;
  int64_t longest_ns_ = 0;
};

}  // namespace dafs
