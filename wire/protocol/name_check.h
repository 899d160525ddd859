// Which byte strings are valid names on the wire. Spec: WIRE 2.7 (R79), 9.4 (R63); R15 for names
// that are not UTF-8.
#pragma once

#include <cstdint>
#include <string_view>

namespace dafs::wire {

// Whether `s` is UTF-8 (RFC 3629: shortest forms, no surrogates, up to U+10FFFF).
bool IsUtf8(std::string_view s);

// Which names a request may contain.
enum class NameRule : uint8_t {
  kUtf8,   // the draft's: UTF-8
  kBytes,  // Linux's: any bytes, if the session has agreed on that (kExtensionByteNames)
};

// Whether `s` is a valid name in a request: not empty, without NUL and "/", and valid by `rule`.
// Does not check its length.
bool IsWireName(std::string_view s, NameRule rule = NameRule::kUtf8);

// "." and "..": no request can create, remove or rename them, and no object has these names.
constexpr bool IsDotName(std::string_view s) { return s == "." || s == ".."; }

}  // namespace dafs::wire
