// Sizes and times for people. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace dafs {

// "512", "4.0K", "12M": in powers of 1024, with two or more digits.
std::string BytesText(uint64_t bytes);

// "12ms", "6.1s", "1m2.5s": whole milliseconds.
std::string MillisecondsText(absl::Duration time);

}  // namespace dafs
