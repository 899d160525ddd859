// Sizes for people. A pure function.
#pragma once

#include <cstdint>
#include <string>

namespace dafs {

// "512", "4.0K", "12M": in powers of 1024, with two or more digits.
std::string BytesText(uint64_t bytes);

}  // namespace dafs
