#include "server/clients/client_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "runtime/text.h"

namespace dafs::server {
namespace {

constexpr size_t kMostBytes = 80;
constexpr size_t kTagDigits = 32;

}  // namespace

std::string ClientName(std::string_view client_id_string) {
  std::string_view name = client_id_string;
  const size_t slash = name.rfind('/');
  if (slash != name.npos && slash > 0) {
    const std::string_view tag = name.substr(slash + 1);
    const bool hex = std::all_of(tag.begin(), tag.end(), [](char c) {
      return absl::ascii_isxdigit(static_cast<unsigned char>(c));
    });
    if (tag.size() == kTagDigits && hex) name = name.substr(0, slash);
  }
  name = name.substr(0, kMostBytes);
  return absl::CHexEscape(Text(name));
}

}  // namespace dafs::server
