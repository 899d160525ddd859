#include "client/status/mount_point.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

namespace dafs::client {
namespace {

std::optional<std::string> RealPath(const std::string& path) {
  char resolved[PATH_MAX];
  if (realpath(path.c_str(), resolved) == nullptr) return std::nullopt;
  return std::string(resolved);
}

// mountinfo writes space, tab, newline and backslash as octal escapes.
std::string Unescape(std::string_view field) {
  auto octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string text;
  for (size_t i = 0; i < field.size(); ++i) {
    if (field[i] == '\\' && i + 3 < field.size() && octal(field[i + 1]) && octal(field[i + 2]) &&
        octal(field[i + 3])) {
      text += static_cast<char>((field[i + 1] - '0') * 64 + (field[i + 2] - '0') * 8 +
                                (field[i + 3] - '0'));
      i += 3;
    } else {
      text += field[i];
    }
  }
  return text;
}

bool Contains(std::string_view point, std::string_view path) {
  if (point == "/") return path.starts_with("/");
  return path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/');
}

// "id parent major:minor root point options [fields] - type source super_options"
std::optional<MountEntry> ParseLine(const std::string& line) {
  std::istringstream fields(line);
  std::string id, parent, root, point, options, word, source;
  MountEntry entry;
  if (!(fields >> id >> parent >> entry.device >> root >> point >> options)) return std::nullopt;
  while (fields >> word && word != "-") {
  }
  if (!(fields >> entry.type >> source)) return std::nullopt;
  fields >> entry.super_options;
  entry.point = Unescape(point);
  entry.source = Unescape(source);
  return entry;
}

}  // namespace

std::string ResolveMountPoint(const std::string& path) {
  if (std::optional<std::string> whole = RealPath(path)) return *whole;
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  const size_t slash = trimmed.rfind('/');
  const std::string last = trimmed.substr(slash == trimmed.npos ? 0 : slash + 1);
  const std::string parent = slash == trimmed.npos ? "."
                             : slash == 0          ? "/"
                                                   : trimmed.substr(0, slash);
  if (last != "." && last != "..") {
    if (std::optional<std::string> above = RealPath(parent)) {
      return (*above == "/" ? "" : *above) + "/" + last;
    }
  }
  if (path.empty() || path[0] == '/') return path;
  char current[PATH_MAX];
  return getcwd(current, sizeof(current)) == nullptr ? path : std::string(current) + "/" + path;
}

std::optional<MountEntry> FindMount(std::string_view mountinfo, std::string_view path) {
  std::optional<MountEntry> found;
  while (!mountinfo.empty()) {
    const std::string_view line = mountinfo.substr(0, mountinfo.find('\n'));
    mountinfo.remove_prefix(std::min(mountinfo.size(), line.size() + 1));
    std::optional<MountEntry> entry = ParseLine(std::string(line));
    if (!entry.has_value() || !Contains(entry->point, path)) continue;
    // The last line of a mount point is the uppermost mount.
    if (!found.has_value() || entry->point.size() >= found->point.size()) found = std::move(entry);
  }
  return found;
}

std::string ReadMountInfo() {
  std::ifstream file("/proc/self/mountinfo");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace dafs::client
