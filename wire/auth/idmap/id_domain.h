// The ID-mapping domain, as --id-domain of dafsd and id_domain= of a mount give it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace dafs::auth {

// Whether `text` is a domain name (RFC 1035): 1 to 253 characters, labels of letters, digits, '-'
// and '_' with dots between them. A label has 1 to 63 characters; '-' does not begin or end it.
inline bool IsIdDomain(std::string_view text) {
  constexpr size_t kMostBytes = 253, kMostLabel = 63;
  const auto is_label = [](std::string_view label) {
    const bool plain = std::all_of(label.begin(), label.end(), [](char c) {
      return c == '-' || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
             (c >= 'A' && c <= 'Z');
    });
    return plain && !label.empty() && label.size() <= kMostLabel && label.front() != '-' &&
           label.back() != '-';
  };
  if (text.size() > kMostBytes) return false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    if (!is_label(text.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace dafs::auth
