#include "server/store/state_dir.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/store/fd.h"
#include "wire/status_macros.h"

namespace dafs::server {
namespace {

absl::Status Failed(std::string_view what, const std::string& path) {
  return absl::FailedPreconditionError(absl::StrCat(absl::string_view(what.data(), what.size()),
                                                    " ", path, ": ", std::strerror(errno)));
}

// The content of `path`, at most `limit` bytes; kNotFound if there is no such file.
absl::StatusOr<std::string> ReadWhole(const std::string& path, size_t limit) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.ok() && errno == ENOENT) return absl::NotFoundError(path);
  if (!fd.ok()) return Failed("open", path);
  std::string content(limit + 1, '\0');
  const ssize_t n = pread(fd.get(), content.data(), content.size(), 0);
  if (n < 0) return Failed("read", path);
  content.resize(static_cast<size_t>(n));
  return content;
}

// Writes `content` to a new file, flushes it and gives it its name, replacing an older one.
absl::Status WriteWhole(const std::string& state_dir, const std::string& name,
                        std::string_view content) {
  const std::string path = absl::StrCat(state_dir, "/", name);
  const std::string fresh = path + ".new";
  unlink(fresh.c_str());
  Fd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.ok()) return Failed("create", fresh);
  if (write(fd.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
    return Failed("write", fresh);
  }
  if (fsync(fd.get()) != 0) return Failed("flush", fresh);
  if (rename(fresh.c_str(), path.c_str()) != 0) return Failed("rename", fresh);
  Fd dir(open(state_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir.ok() || fsync(dir.get()) != 0) return Failed("flush", state_dir);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HandleKey> LoadOrCreateHandleKey(const std::string& state_dir) {
  HandleKey key;
  const std::string path = state_dir + "/handle-key";
  absl::StatusOr<std::string> stored = ReadWhole(path, key.size());
  if (absl::IsNotFound(stored.status())) {
    if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) {
      return absl::InternalError("getrandom: no random numbers for the handle key");
    }
    RETURN_IF_ERROR(WriteWhole(state_dir, "handle-key",
                               {reinterpret_cast<const char*>(key.data()), key.size()}));
    return key;
  }
  RETURN_IF_ERROR(stored.status());
  if (stored->size() != key.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": holds ", stored->size(), " bytes instead of ", key.size(),
                     "; remove it to invalidate all filehandles and start anew"));
  }
  std::memcpy(key.data(), stored->data(), key.size());
  return key;
}

absl::StatusOr<uint32_t> NextInstance(const std::string& state_dir) {
  const std::string path = state_dir + "/instance";
  uint32_t last = 0;
  absl::StatusOr<std::string> stored = ReadWhole(path, 16);
  if (!absl::IsNotFound(stored.status())) {
    RETURN_IF_ERROR(stored.status());
    if (!absl::SimpleAtoi(*stored, &last)) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": does not hold a number; remove it to start anew"));
    }
  }
  const uint32_t next = last + 1 == 0 ? 1 : last + 1;
  RETURN_IF_ERROR(WriteWhole(state_dir, "instance", absl::StrCat(next, "\n")));
  return next;
}

}  // namespace dafs::server
