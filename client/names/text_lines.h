// The lines and words of a configuration file: "#" begins a comment at the start of a line or after
// a blank. Pure functions; any thread.
#pragma once

#include <string_view>
#include <vector>

namespace dafs::names {

// A line without its comment and outer blanks.
std::string_view TrimLine(std::string_view line);
// Separated by blanks and tabs.
std::vector<std::string_view> Words(std::string_view line);

// Calls `visit(number, line)` for each line that is not empty once trimmed, from number 1, until it
// returns false.
template <class F>
void ForEachLine(std::string_view text, F&& visit) {
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = TrimLine(text.substr(0, end));
    if (!line.empty() && !visit(number, line)) return;
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
}

}  // namespace dafs::names
