#include "fuse/options/source.h"

#include <charconv>
#include <system_error>

namespace dafs::fuse {
namespace {

// Returns 0 if `text` is not a port.
uint16_t PortOf(std::string_view text) {
  uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  return error == std::errc() && stop == end ? port : 0;
}

}  // namespace

absl::StatusOr<Source> ParseSource(std::string_view text) {
  auto bad = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        std::string("bad source ").append(text).append(": ").append(why));
  };
  Source source;
  source.text = std::string(text);
  std::string_view rest = text;
  if (rest.starts_with("[")) {
    size_t close = rest.find(']');
    if (close == rest.npos) return bad("no closing bracket");
    source.host = std::string(rest.substr(1, close - 1));
    rest.remove_prefix(close + 1);
  } else {
    size_t end = rest.find(':');
    if (end == rest.npos || rest.substr(0, end).find('/') != rest.npos) {
      return bad("expected SERVER[:PORT]:/EXPORT");
    }
    source.host = std::string(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  if (source.host.empty()) return bad("no server");
  if (!rest.starts_with(":")) return bad("no ':' after the server");
  rest.remove_prefix(1);
  if (!rest.starts_with("/")) {
    size_t end = rest.find(":/");
    if (end == rest.npos) return bad("no ':/EXPORT' (write an IPv6 address in brackets)");
    const std::string_view port = rest.substr(0, end);
    source.port = PortOf(port);
    if (source.port == 0) return bad(std::string(port) + " is not a port");
    rest.remove_prefix(end + 1);
  }
  while (rest.size() > 1 && rest.ends_with("/")) rest.remove_suffix(1);
  source.export_path = std::string(rest);
  for (std::string_view path = rest; !path.empty();) {
    path.remove_prefix(1);
    const std::string_view name = path.substr(0, path.find('/'));
    if (name == "." || name == "..") {
      return bad("the path must not contain '.' or '..'");
    }
    path.remove_prefix(name.size());
  }
  return source;
}

}  // namespace dafs::fuse
