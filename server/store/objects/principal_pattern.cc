#include "server/store/objects/principal_pattern.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/text.h"

namespace dafs::server {

bool PrincipalFits(std::string_view pattern, std::string_view principal) {
  // After a mismatch the last "*" takes one more character. An earlier one need not be tried again.
  size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < principal.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == principal[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos &&
               std::string_view("/@\\").find(principal[taken]) == std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool PrincipalFitsAny(const std::vector<std::string>& patterns, std::string_view principal) {
  return std::any_of(patterns.begin(), patterns.end(), [principal](const std::string& pattern) {
    return PrincipalFits(pattern, principal);
  });
}

absl::Status CheckPrincipalPattern(std::string_view pattern) {
  const size_t at = pattern.find('@');
  const bool is_printable = std::all_of(pattern.begin(), pattern.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (at != std::string_view::npos && at > 0 && at + 1 < pattern.size() && is_printable) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", Text(pattern),
                   "' is not a principal; give NAME@REALM, in which '*' stands for any part"));
}

bool IsPasswordName(std::string_view name) {
  constexpr size_t kMost = 64;
  return !name.empty() && name.size() <= kMost && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  });
}

}  // namespace dafs::server
