#include "runtime/files/secret_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/files/unique_fd.h"

namespace dafs {

absl::StatusOr<std::string> ReadSecretFile(const std::string& path, size_t most_bytes) {
  const auto bad = [&path](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": ", why));
  };
  // O_NONBLOCK: a FIFO without a writer must not hold the thread; it is refused below.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return bad(strerror(errno));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return bad(strerror(errno));
  if (!S_ISREG(info.st_mode)) return bad("not a regular file");
  if (info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    return bad(
        absl::StrCat("other users can access it; chown it to user ", geteuid(), " and chmod 600"));
  }
  std::string text(most_bytes + 1, '\0');  // one more shows that the file is larger
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = read(fd.get(), text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    const int error = n < 0 ? errno : 0;
    if (error != 0) explicit_bzero(text.data(), size);
    if (error != 0) return bad(strerror(error));
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  if (size > most_bytes) {
    explicit_bzero(text.data(), text.size());
    return bad(absl::StrCat("larger than ", most_bytes, " bytes"));
  }
  text.resize(size);
  return text;
}

}  // namespace dafs
