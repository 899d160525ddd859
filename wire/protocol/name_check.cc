#include "wire/protocol/name_check.h"

namespace dafs::wire {
namespace {

// The length of the UTF-8 sequence at s[0], 0 if there is none. Table 3-7 of the Unicode standard.
size_t SequenceLength(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const auto tail = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return s.size() >= 2 && tail(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    if (s.size() < 3 || !tail(1) || !tail(2)) return 0;
    if (lead == 0xe0 && byte(1) < 0xa0) return 0;  // shorter form exists
    if (lead == 0xed && byte(1) > 0x9f) return 0;  // surrogate
    return 3;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    if (s.size() < 4 || !tail(1) || !tail(2) || !tail(3)) return 0;
    if (lead == 0xf0 && byte(1) < 0x90) return 0;  // shorter form exists
    if (lead == 0xf4 && byte(1) > 0x8f) return 0;  // beyond U+10FFFF
    return 4;
  }
  return 0;
}

}  // namespace

bool IsUtf8(std::string_view s) {
  while (!s.empty()) {
    const size_t length = SequenceLength(s);
    if (length == 0) return false;
    s.remove_prefix(length);
  }
  return true;
}

bool IsWireName(std::string_view s, NameRule rule) {
  if (s.empty()) return false;
  for (const char c : s) {
    if (c == '\0' || c == '/') return false;
  }
  return rule == NameRule::kBytes || IsUtf8(s);
}

}  // namespace dafs::wire
