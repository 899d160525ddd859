// One record of the audit log: a line with one JSON object (RFC 8259), in UTF-8. Names of files and
// clients may have any bytes: none of them ends the line, the text or the object, and none reaches
// a terminal as a control character.
// A value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "server/audit/audit_options.h"

namespace dafs::server {

class AuditLine {
 public:
  // Longer texts are cut; the record then has "cut": true. A path has PATH_MAX bytes at most.
  static constexpr size_t kMostText = 4096;

  // Begins with the members "time" (UTC, microseconds), "class" and "op".
  AuditLine(absl::Time time, AuditClass of, std::string_view op);

  // `key` is a plain word.
  void Add(std::string_view key, uint64_t value);
  // Bytes that are not UTF-8 become U+FFFD, and the member KEY_bytes then has all of them, as
  // hexadecimal digits.
  void Add(std::string_view key, std::string_view text);

  // Ends the record. Returns it with its end of line.
  std::string Take() &&;

 private:
  void AddKey(std::string_view key);

  std::string line_;
  bool is_cut_ = false;
};

}  // namespace dafs::server
