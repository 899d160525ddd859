#include "client/status/mount_point.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <optional>

namespace dafs::client {
namespace {

std::optional<std::string> RealPath(const std::string& path) {
  char resolved[PATH_MAX];
  if (realpath(path.c_str(), resolved) == nullptr) return std::nullopt;
  return std::string(resolved);
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

}  // namespace dafs::client
