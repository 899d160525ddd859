#include "server/store/system/mount_table.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "runtime/unique_fd.h"

namespace dafs::server {
namespace {

std::string ReadWhole() {
  std::string text;
  UniqueFd fd(open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
  char buffer[16384];
  for (ssize_t n; fd.valid() && (n = read(fd.get(), buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
  }
  return text;
}

// mountinfo writes blanks and backslashes in paths as \ooo.
std::string Unescape(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                               (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::vector<MountLine> ReadMountTable() {
  const std::string text = ReadWhole();
  std::vector<MountLine> result;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    // 36 35 98:0 /root /mount/point options ... - type source options
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(' ', 5));
    MountLine mount;
    if (fields.size() < 6 || !absl::SimpleAtoi(fields[0], &mount.mount_id)) continue;
    mount.device = std::string(fields[2]);
    mount.root = Unescape(fields[3]);
    mount.point = Unescape(fields[4]);
    if (const size_t rest = line.find(" - "); rest != line.npos) {
      const absl::string_view type = line.substr(rest + 3);
      mount.type = std::string(type.substr(0, type.find(' ')));
    }
    result.push_back(std::move(mount));
  }
  return result;
}

}  // namespace dafs::server
