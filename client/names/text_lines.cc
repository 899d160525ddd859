#include "client/names/text_lines.h"

#include <algorithm>

namespace dafs::names {
namespace {

constexpr std::string_view kBlanks = " \t\r";

}  // namespace

std::string_view TrimLine(std::string_view line) {
  for (size_t at = line.find('#'); at != line.npos; at = line.find('#', at + 1)) {
    if (at != 0 && kBlanks.find(line[at - 1]) == kBlanks.npos) continue;
    line = line.substr(0, at);
    break;
  }
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  line.remove_suffix(line.size() - (line.find_last_not_of(kBlanks) + 1));
  return line;
}

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  for (;;) {
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    if (line.empty()) return words;
    words.push_back(line.substr(0, line.find_first_of(kBlanks)));
    line.remove_prefix(words.back().size());
  }
}

}  // namespace dafs::names
