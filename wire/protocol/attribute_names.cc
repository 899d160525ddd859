#include "wire/protocol/attribute_names.h"

namespace dafs::wire {
namespace {

constexpr std::string_view kOthers = "user.dafs.";

}  // namespace

bool HasNameSpace(std::string_view name) {
  return name.starts_with("user.") || name.starts_with("trusted.") ||
         name.starts_with("security.") || name.starts_with("system.");
}

std::string XattrOf(std::string_view attribute) {
  std::string name(HasNameSpace(attribute) ? "" : kOthers);
  return name.append(attribute);
}

std::string_view AttributeOf(std::string_view xattr) {
  if (!xattr.starts_with(kOthers)) return xattr;
  const std::string_view name = xattr.substr(kOthers.size());
  return name.empty() || HasNameSpace(name) ? xattr : name;
}

}  // namespace dafs::wire
