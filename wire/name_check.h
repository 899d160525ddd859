// Which byte strings are names on the wire. Spec: WIRE.md 2.7 (R79), 9.4 (R63).
#pragma once

#include <string_view>

namespace dafs::wire {

// Whether `s` is UTF-8 (RFC 3629: shortest forms, no surrogates, up to U+10FFFF).
bool IsUtf8(std::string_view s);

// Whether `s` may stand as a name in a request: not empty, UTF-8, without NUL and "/".
// Does not look at its length.
bool IsWireName(std::string_view s);

// "." and "..": they cannot be created, removed or renamed, and nothing has these names.
constexpr bool IsDotName(std::string_view s) { return s == "." || s == ".."; }

}  // namespace dafs::wire
