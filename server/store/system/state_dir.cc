#include "server/store/system/state_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/files/unique_fd.h"
#include "runtime/fnv.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

namespace dafs::server {
namespace {

absl::Status Failed(std::string_view what, const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat(Text(what), " ", path, ": ", std::strerror(errno)));
}

bool Exists(const std::string& path) {
  struct stat st;
  return lstat(path.c_str(), &st) == 0;
}

// Returns whether the directory `path` has entries.
bool HasEntries(const std::string& path) {
  std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(path.c_str()), &closedir);
  if (listing == nullptr) return false;
  while (const dirent* entry = readdir(listing.get())) {
    if (std::string_view(entry->d_name) != "." && std::string_view(entry->d_name) != "..") {
      return true;
    }
  }
  return false;
}

absl::Status KeyError(const std::string& state_dir, std::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat(state_dir, "/handle-key: ", Text(why),
                   "; restore it from a copy, or remove the state directory ", state_dir,
                   " to start empty: every mount then loses all filehandles and open files"));
}

// A hash in hexadecimal digits. It is stored beside the key, so it need not hide the key.
std::string SumOf(const HandleKey& key) {
  return absl::StrCat(absl::Hex(Fnv64(std::as_bytes(std::span(key))), absl::kZeroPad16));
}

// The content of the file `instance`: "NUMBER SUM\n". Older servers wrote "NUMBER\n".
struct InstanceRecord {
  uint32_t number = 0;
  std::string key_sum;
};

std::optional<InstanceRecord> ParseInstance(std::string_view text) {
  if (text.empty() || text.back() != '\n') return std::nullopt;
  const std::vector<std::string> words =
      absl::StrSplit(std::string(text.substr(0, text.size() - 1)), ' ');
  InstanceRecord record;
  if (words.size() > 2 || !absl::SimpleAtoi(words[0], &record.number)) return std::nullopt;
  if (words.size() == 2) {
    if (words[1].size() != 16) return std::nullopt;
    record.key_sum = words[1];
  }
  return record;
}

// Numbers count up from 1 and wrap at 2^24 in a state id. No server starts so often that it counts
// up to this number.
absl::StatusOr<uint32_t> RandomInstance() {
  uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) {
    return absl::InternalError("getrandom: no random number for the instance");
  }
  return (1u << 22) | (number & ((1u << 22) - 1));
}

}  // namespace

absl::StatusOr<std::string> ReadStateFile(const std::string& state_dir, const std::string& name,
                                          size_t limit) {
  const std::string path = absl::StrCat(state_dir, "/", name);
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid() && errno == ENOENT) return absl::NotFoundError(path);
  if (!fd.valid()) return Failed("open", path);
  std::string content(limit + 1, '\0');
  const ssize_t n = pread(fd.get(), content.data(), content.size(), 0);
  if (n < 0) return Failed("read", path);
  content.resize(static_cast<size_t>(n));
  return content;
}

absl::Status WriteStateFile(const std::string& state_dir, const std::string& name,
                            std::string_view content) {
  const std::string path = absl::StrCat(state_dir, "/", name);
  const std::string fresh = path + ".new";
  unlink(fresh.c_str());
  UniqueFd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return Failed("create", fresh);
  if (write(fd.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
    return Failed("write", fresh);
  }
  if (fsync(fd.get()) != 0) return Failed("flush", fresh);
  if (rename(fresh.c_str(), path.c_str()) != 0) return Failed("rename", fresh);
  UniqueFd dir(open(state_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir.valid() || fsync(dir.get()) != 0) return Failed("flush", state_dir);
  return absl::OkStatus();
}

bool HasServed(const std::string& state_dir) {
  return Exists(state_dir + "/handle-key") || Exists(state_dir + "/instance") ||
         Exists(state_dir + "/write-verifier") || HasEntries(state_dir + "/responses");
}

absl::StatusOr<HandleKey> LoadOrCreateHandleKey(const std::string& state_dir) {
  HandleKey key;
  absl::StatusOr<std::string> stored = ReadStateFile(state_dir, "handle-key", key.size());
  if (absl::IsNotFound(stored.status())) {
    if (HasServed(state_dir))
      return KeyError(state_dir, "missing, though dafsd has served with it");
    if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) {
      return absl::InternalError("getrandom: no random numbers for the handle key");
    }
    RETURN_IF_ERROR(WriteStateFile(state_dir, "handle-key",
                                   {reinterpret_cast<const char*>(key.data()), key.size()}));
    return key;
  }
  if (!stored.ok()) return KeyError(state_dir, std::string(stored.status().message()));
  if (stored->size() != key.size()) {
    return KeyError(
        state_dir,
        absl::StrCat("not of ", key.size(), " bytes, but of ",
                     stored->size() > key.size() ? "more" : absl::StrCat(stored->size())));
  }
  std::memcpy(key.data(), stored->data(), key.size());
  return key;
}

absl::StatusOr<uint32_t> NextInstance(const std::string& state_dir, const HandleKey& key,
                                      bool has_served) {
  const std::string path = state_dir + "/instance";
  absl::StatusOr<std::string> stored = ReadStateFile(state_dir, "instance", 64);
  if (!stored.ok() && !absl::IsNotFound(stored.status())) {
    return absl::Status(
        stored.status().code(),
        absl::StrCat(stored.status().message(), "; remove it: a random number replaces it"));
  }
  std::optional<InstanceRecord> last;
  if (stored.ok()) last = ParseInstance(*stored);
  uint32_t next = 1;
  if (last.has_value()) {
    if (!last->key_sum.empty() && last->key_sum != SumOf(key)) {
      return KeyError(state_dir,
                      absl::StrCat("not the key that the filehandles were made with, says ", path));
    }
    if (last->number != UINT32_MAX) next = last->number + 1;
  } else if (has_served) {
    ASSIGN_OR_RETURN(next, RandomInstance());
    LogError(absl::StrCat(path, stored.ok() ? ": damaged" : ": missing",
                          "; this instance has the random number ", next));
  }
  RETURN_IF_ERROR(WriteStateFile(state_dir, "instance", absl::StrCat(next, " ", SumOf(key), "\n")));
  return next;
}

}  // namespace dafs::server
