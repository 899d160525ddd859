#include "runtime/files/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/files/unique_fd.h"

namespace dafs {

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t most_bytes, int flags) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, path);
  std::string text;
  std::array<char, 16384> piece;
  for (;;) {
    const ssize_t got = read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, path);
    if (got == 0) return text;
    text.append(piece.data(), static_cast<size_t>(got));
    if (text.size() > most_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": larger than ", most_bytes, " bytes"));
    }
  }
}

}  // namespace dafs
