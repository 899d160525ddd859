#include "server/audit/audit_line.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text.h"

namespace dafs::server {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// The character at the front of `text`, which is not empty. Sets `*size` to its bytes, 0 if these
// are not UTF-8 (RFC 3629: the shortest form, no surrogates, at most U+10FFFF).
uint32_t CharacterAt(std::string_view text, size_t* size) {
  const auto first = static_cast<unsigned char>(text[0]);
  *size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (*size == 1) return first;
  if (first > 0xf4 || *size > text.size()) *size = 0;
  uint32_t value = *size == 0 ? 0 : first & (0xffu >> (*size + 1));
  for (size_t i = 1; i < *size; ++i) {
    if (!IsContinuation(text[i])) {
      *size = 0;
      break;
    }
    value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  }
  const bool is_long = (*size == 3 && value < 0x800) || (*size == 4 && value < 0x10000);
  const bool is_surrogate = value >= 0xd800 && value < 0xe000;
  if (is_long || is_surrogate || value > 0x10ffff) *size = 0;
  return value;
}

// Control characters, and those by which a terminal or a reader of lines takes a text for another:
// C1 controls, ends of lines, marks of direction.
bool IsEscaped(uint32_t c) {
  return c < 0x20 || c == '"' || c == '\\' || (c >= 0x7f && c < 0xa0) || c == 0x61c ||
         (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

// Returns false if some bytes of `text` are not UTF-8.
bool AppendText(std::string_view text, std::string& line) {
  bool is_exact = true;
  while (!text.empty()) {
    size_t size = 0;
    const uint32_t c = CharacterAt(text, &size);
    if (size == 0) {
      is_exact = false;
      line.append(kReplacement);
      size = 1;
    } else if (c == '"' || c == '\\') {
      line.push_back('\\');
      line.push_back(static_cast<char>(c));
    } else if (IsEscaped(c)) {
      absl::StrAppendFormat(&line, "\\u%04x", c);
    } else {
      line.append(text.substr(0, size));
    }
    text.remove_prefix(size);
  }
  return is_exact;
}

// The longest part of `text` that may be written, without a part of a character.
std::string_view Cut(std::string_view text) {
  size_t size = AuditLine::kMostText;
  while (size > AuditLine::kMostText - 4 && IsContinuation(text[size])) --size;
  return text.substr(0, size);
}

}  // namespace

AuditLine::AuditLine(absl::Time time, AuditClass of, std::string_view op)
    : line_(absl::StrCat("{\"time\":\"",
                         absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone()),
                         "\",\"class\":\"", Text(NameOf(of)), "\"")) {
  Add("op", op);
}

void AuditLine::AddKey(std::string_view key) { absl::StrAppend(&line_, ",\"", Text(key), "\":"); }

void AuditLine::Add(std::string_view key, uint64_t value) {
  AddKey(key);
  absl::StrAppend(&line_, value);
}

void AuditLine::Add(std::string_view key, std::string_view text) {
  if (text.size() > kMostText) {
    text = Cut(text);
    is_cut_ = true;
  }
  AddKey(key);
  line_.push_back('"');
  const bool is_exact = AppendText(text, line_);
  line_.push_back('"');
  if (is_exact) return;
  absl::StrAppend(&line_, ",\"", Text(key), "_bytes\":\"", absl::BytesToHexString(Text(text)),
                  "\"");
}

std::string AuditLine::Take() && {
  absl::StrAppend(&line_, is_cut_ ? ",\"cut\":true" : "", "}\n");
  return std::move(line_);
}

}  // namespace dafs::server
