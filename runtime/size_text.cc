#include "runtime/size_text.h"

#include <cstddef>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dafs {

std::string BytesText(uint64_t bytes) {
  constexpr std::string_view kUnits = "KMGTPE";
  if (bytes < 1024) return absl::StrCat(bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.*f%c", value < 10 ? 1 : 0, value, kUnits[unit]);
}

std::string MillisecondsText(absl::Duration time) {
  return absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1)));
}

}  // namespace dafs
