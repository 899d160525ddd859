#include "server/audit/audit_options.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/text.h"

namespace dafs::server {
namespace {

constexpr AuditClass kClasses[] = {AuditClass::kAuth, AuditClass::kOpen, AuditClass::kChange,
                                   AuditClass::kAcl,  AuditClass::kDeny, AuditClass::kAdmin};

}  // namespace

std::string_view NameOf(AuditClass one) {
  switch (one) {
    case AuditClass::kAuth:
      return "auth";
    case AuditClass::kOpen:
      return "open";
    case AuditClass::kChange:
      return "change";
    case AuditClass::kAcl:
      return "acl";
    case AuditClass::kDeny:
      return "deny";
    case AuditClass::kAdmin:
      return "admin";
  }
  return "";
}

absl::StatusOr<AuditClasses> ParseAuditClasses(std::string_view text) {
  if (text == "all") return kAllAuditClasses;
  AuditClasses classes = 0;
  for (const absl::string_view word : absl::StrSplit(Text(text), ',')) {
    AuditClasses found = 0;
    for (const AuditClass one : kClasses) {
      if (Text(NameOf(one)) == word) found = SetOf(one);
    }
    if (found == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--audit-classes: no class `", word,
          "`; give some of auth, open, change, acl, deny, admin, joined by commas, or all"));
    }
    classes |= found;
  }
  return classes;
}

}  // namespace dafs::server
