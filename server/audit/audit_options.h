// The contents and the place of the audit log: --audit and --audit-classes of dafsd.
// Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace dafs::server {

// A record has one. kDeny takes the place of another one if the server refused the request.
enum class AuditClass : uint8_t { kAuth, kOpen, kChange, kAcl, kDeny, kAdmin };

// A set of classes.
using AuditClasses = uint32_t;
constexpr AuditClasses SetOf(AuditClass one) { return AuditClasses{1} << static_cast<int>(one); }

inline constexpr AuditClasses kAllAuditClasses = 0x3f;
// Not those that a busy server has thousands of each second.
inline constexpr AuditClasses kDefaultAuditClasses =
    SetOf(AuditClass::kAuth) | SetOf(AuditClass::kAcl) | SetOf(AuditClass::kDeny) |
    SetOf(AuditClass::kAdmin);

inline constexpr std::string_view kAuditToSyslog = "syslog";

struct AuditOptions {
  std::string destination;  // an absolute path, or kAuditToSyslog; empty: nothing is recorded
  AuditClasses classes = kDefaultAuditClasses;
  // Records that wait to be written. Further ones are dropped, and counted.
  size_t queue_bytes = size_t{4} << 20;
};

std::string_view NameOf(AuditClass one);

// Parses names joined by commas, or "all". kInvalidArgument names the wrong one.
absl::StatusOr<AuditClasses> ParseAuditClasses(std::string_view text);

}  // namespace dafs::server
