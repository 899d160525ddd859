// Quantiles of a histogram with the buckets of LatencyHistogram. A pure function.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace dafs {

// An estimate in microseconds of the duration that the part `quantile` (0 to 1) does not exceed, as
// if the durations of each bucket were spread evenly over it. 0 if there are none.
inline double QuantileUs(std::span<const uint64_t> counts, double quantile) {
  const double wanted =
      quantile * static_cast<double>(std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
  double below = 0;
  double high = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto here = static_cast<double>(counts[i]);
    if (here == 0) continue;
    const double low = i == 0 ? 0 : static_cast<double>(uint64_t{1} << (i - 1));
    high = static_cast<double>(uint64_t{1} << i);
    if (below + here >= wanted) return low + (high - low) * std::max(wanted - below, 0.0) / here;
    below += here;
  }
  return high;
}

}  // namespace dafs
