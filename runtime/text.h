// Converts between the standard string_view and Abseil's. Debian 12's Abseil has a string_view type
// of its own: its StrCat and its tables do not take the standard one. Values.
#pragma once

#include <string_view>

#include "absl/strings/string_view.h"

namespace dafs {

inline absl::string_view Text(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view Std(absl::string_view text) { return {text.data(), text.size()}; }

}  // namespace dafs
