#include "server/clients/client_name.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "runtime/text.h"

namespace dafs::server {
namespace {

constexpr size_t kMostBytes = 80;
constexpr size_t kTagDigits = 32;

// The string without its tag; nullopt if it has none.
std::optional<std::string_view> WithoutTag(std::string_view client_id_string) {
  const size_t slash = client_id_string.rfind('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  const std::string_view tag = client_id_string.substr(slash + 1);
  const bool hex = std::all_of(tag.begin(), tag.end(), [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c));
  });
  if (tag.size() != kTagDigits || !hex) return std::nullopt;
  return client_id_string.substr(0, slash);
}

}  // namespace

std::string ClientName(std::string_view client_id_string) {
  const std::string_view name = WithoutTag(client_id_string).value_or(client_id_string);
  return absl::CHexEscape(Text(name.substr(0, kMostBytes)));
}

ClientPlace ClientPlaceOf(std::string_view client_id_string) {
  const std::optional<std::string_view> name = WithoutTag(client_id_string);
  const size_t colon = name ? name->find(":/") : std::string_view::npos;
  if (colon == std::string_view::npos) return {};
  return {.host = absl::CHexEscape(Text(name->substr(0, colon))),
          .mount_point = absl::CHexEscape(Text(name->substr(colon + 1)))};
}

}  // namespace dafs::server
