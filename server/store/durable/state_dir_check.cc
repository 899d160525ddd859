#include "server/store/durable/state_dir_check.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/files/mount_table.h"
#include "runtime/files/unique_fd.h"
#include "runtime/status_macros.h"

namespace dafs::server {
namespace {

absl::Status Refused(absl::string_view path, absl::string_view why, absl::string_view remedy) {
  return absl::FailedPreconditionError(
      absl::StrCat("state directory: ", path, ": ", why, "; ", remedy));
}

// `forbidden`: permission bits that must not be set.
absl::Status CheckOwner(const std::string& path, const struct stat& st, mode_t forbidden) {
  if (st.st_uid != geteuid()) {
    return Refused(path, absl::StrCat("belongs to user ", st.st_uid),
                   absl::StrCat("give it to the user of dafsd: chown ", geteuid(), " ", path));
  }
  if (S_ISLNK(st.st_mode) || (st.st_mode & forbidden) == 0) return absl::OkStatus();
  return Refused(
      path,
      absl::StrFormat("other users can %s it (mode %04o)",
                      (st.st_mode & forbidden & 022) != 0 ? "write" : "read", st.st_mode & 07777),
      absl::StrCat("remove that right: chmod go-rwx ", path));
}

absl::Status CheckFiles(const std::string& state_dir) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(state_dir.c_str()), &closedir);
  if (dir == nullptr) return Refused(state_dir, std::strerror(errno), "make it readable for dafsd");
  while (const dirent* entry = readdir(dir.get())) {
    const std::string name = entry->d_name;
    struct stat st;
    if (name == "." || name == ".." ||
        fstatat(dirfd(dir.get()), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    if (S_ISSOCK(st.st_mode)) continue;  // of --admin-socket: the group may write it
    RETURN_IF_ERROR(
        CheckOwner(absl::StrCat(state_dir, "/", name), st, name == "handle-key" ? 077 : 022));
  }
  return absl::OkStatus();
}

// A directory within its file system, independent of mounts.
struct PlaceInFileSystem {
  std::string device;  // MAJOR:MINOR
  std::string path;    // from the root of the file system
};

bool IsWithin(absl::string_view path, absl::string_view directory) {
  if (directory == "/") return true;
  return absl::StartsWith(path, directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

absl::string_view Below(absl::string_view path, absl::string_view directory) {
  return directory == "/" ? path : path.substr(directory.size());
}

// Returns the place of `path`, which has no symbolic links; nullopt if `mounts` does not have its
// mount. Requests no attributes from its file system (AT_STATX_DONT_SYNC).
std::optional<PlaceInFileSystem> PlaceOf(const std::string& path,
                                         const std::vector<MountEntry>& mounts) {
  struct statx stx;
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  if (statx(AT_FDCWD, path.c_str(), kFlags, STATX_MNT_ID, &stx) != 0) return std::nullopt;
  const auto on = std::find_if(mounts.begin(), mounts.end(), [&](const MountEntry& mount) {
    return mount.mount_id == stx.stx_mnt_id && IsWithin(path, mount.point);
  });
  if (on == mounts.end()) return std::nullopt;
  const absl::string_view below = Below(path, on->point);
  if (below.empty() || below == "/") return PlaceInFileSystem{on->device, on->root};
  return PlaceInFileSystem{on->device, absl::StrCat(on->root == "/" ? "" : on->root, below)};
}

// The directory by which clients of `exported` can reach `real`, a path without symbolic links;
// empty: none.
std::string WayTo(const std::string& real, const Export& exported) {
  const std::vector<MountEntry> mounts = ReadMountTable();
  const std::optional<PlaceInFileSystem> state = PlaceOf(real, mounts);
  const auto serves = [&](const PlaceInFileSystem& served) {
    return state.has_value() && served.device == state->device &&
           IsWithin(state->path, served.path);
  };
  char directory[PATH_MAX];
  // Mounts::Open refuses an export without a directory.
  if (realpath(exported.directory.c_str(), directory) == nullptr) return "";
  const std::optional<PlaceInFileSystem> top = PlaceOf(directory, mounts);
  std::string by;
  if (IsWithin(real, directory) || (top.has_value() && serves(*top))) by = exported.directory;
  for (const MountEntry& mount : mounts) {  // mounts inside the export
    if (IsWithin(mount.point, directory) && mount.point != directory &&
        serves({mount.device, mount.root})) {
      by = mount.point;
    }
  }
  return by;
}

}  // namespace

absl::Status CheckOutOfReach(const std::string& state_dir, const Export& exported) {
  char real[PATH_MAX];
  if (realpath(state_dir.c_str(), real) == nullptr) {
    return Refused(state_dir, std::strerror(errno), "name another with --state-dir");
  }
  const std::string by = WayTo(real, exported);
  if (by.empty()) return absl::OkStatus();
  return Refused(state_dir,
                 absl::StrCat("clients of export ", exported.name, " can reach it by ", by,
                              ", and with the handle key in it every file of the server"),
                 "name a directory outside of all exports with --state-dir");
}

absl::Status CheckAuditOutOfReach(const std::string& file, const Export& exported) {
  const auto refused = [&file](absl::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat("--audit ", file, ": ", why, "; name a file outside of all exports"));
  };
  // Its directory: a program that rotates the log may have renamed the file.
  const std::string directory = file.substr(0, std::max<size_t>(file.rfind('/'), 1));
  char real[PATH_MAX];
  if (realpath(directory.c_str(), real) == nullptr) return refused(std::strerror(errno));
  const std::string by = WayTo(real, exported);
  if (by.empty()) return absl::OkStatus();
  return refused(absl::StrCat("clients of export ", exported.name, " can reach it by ", by));
}

absl::Status CheckStateDir(const std::string& state_dir) {
  const UniqueFd fd(open(state_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() && errno == ENOENT) {
    return Refused(state_dir, "does not exist",
                   absl::StrCat("create it (mkdir -m 700 ", state_dir,
                                "), or correct --state-dir if a server has run before: with "
                                "another directory every mount is stale"));
  }
  struct stat st;
  if (!fd.valid() || fstat(fd.get(), &st) != 0) {
    return Refused(state_dir, std::strerror(errno), "name another with --state-dir");
  }
  RETURN_IF_ERROR(CheckOwner(state_dir, st, 022));
  return CheckFiles(state_dir);
}

}  // namespace dafs::server
