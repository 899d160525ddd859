#include "runtime/files/mount_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "runtime/files/whole_file.h"
#include "runtime/text.h"

namespace dafs {
namespace {

constexpr size_t kMostMountInfo = 64 << 20;  // of more than 100,000 mounts

// mountinfo writes space, tab, newline and backslash as octal escapes.
std::string Unescape(absl::string_view field) {
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
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

// "id parent major:minor root point options [fields] - type source super_options"
std::optional<MountEntry> ParseLine(absl::string_view line) {
  const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
  const auto dash = std::find(fields.begin(), fields.end(), "-");
  MountEntry mount;
  if (dash - fields.begin() < 6 || fields.end() - dash < 3) return std::nullopt;
  if (!absl::SimpleAtoi(fields[0], &mount.mount_id)) return std::nullopt;
  mount.device = std::string(fields[2]);
  mount.root = Unescape(fields[3]);
  mount.point = Unescape(fields[4]);
  mount.type = std::string(dash[1]);
  mount.source = Unescape(dash[2]);
  if (fields.end() - dash > 3) mount.super_options = std::string(dash[3]);
  return mount;
}

bool Contains(std::string_view point, std::string_view path) {
  if (point == "/") return path.starts_with("/");
  return path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/');
}

}  // namespace

std::vector<MountEntry> ReadMountTable() {
  return ParseMountInfo(ReadWholeFile("/proc/self/mountinfo", kMostMountInfo).value_or(""));
}

std::vector<MountEntry> ParseMountInfo(std::string_view text) {
  std::vector<MountEntry> mounts;
  for (absl::string_view line : absl::StrSplit(Text(text), '\n', absl::SkipEmpty())) {
    if (std::optional<MountEntry> mount = ParseLine(line)) mounts.push_back(std::move(*mount));
  }
  return mounts;
}

const MountEntry* FindMount(const std::vector<MountEntry>& mounts, std::string_view path) {
  const MountEntry* found = nullptr;
  for (const MountEntry& mount : mounts) {
    if (!Contains(mount.point, path)) continue;
    // The last line of a mount point is the uppermost mount.
    if (found == nullptr || mount.point.size() >= found->point.size()) found = &mount;
  }
  return found;
}

}  // namespace dafs
