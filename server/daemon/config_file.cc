#include "server/daemon/config_file.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace dafs::server {

absl::StatusOr<std::vector<ConfigLine>> ParseConfigFile(const std::string& text,
                                                        const std::string& path) {
  std::vector<ConfigLine> lines;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    const size_t equals = line.find('=');
    const absl::string_view key = absl::StripAsciiWhitespace(line.substr(0, equals));
    const bool plain = std::all_of(key.begin(), key.end(), [](char c) {
      return absl::ascii_islower(static_cast<unsigned char>(c)) || c == '-';
    });
    const std::string place = absl::StrCat(path, ":", number);
    if (key.empty() || !plain) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": expected `key = value`, got `", line, "`"));
    }
    if (key == "config") {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": a configuration file cannot name another"));
    }
    std::string argument = absl::StrCat("--", key);
    if (equals != absl::string_view::npos) {
      absl::StrAppend(&argument, "=", absl::StripAsciiWhitespace(line.substr(equals + 1)));
    }
    lines.push_back({.place = place, .argument = std::move(argument)});
  }
  return lines;
}

}  // namespace dafs::server
