#include "client/ctl/mount_query.h"

#include <sys/statfs.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/status/mount_point.h"
#include "runtime/control_socket.h"
#include "runtime/mount_table.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

absl::Status OnlyRoot(const std::string& what) {
  return absl::PermissionDeniedError(
      absl::StrCat(what, ": only root and the group dafs can query a mount"));
}

// The reason why a query for `path` failed. `mount` is the mount that contains the path; nullptr if
// none does.
absl::Status NoAnswer(const std::string& path, const MountEntry* mount,
                      const absl::Status& failed) {
  if (absl::IsPermissionDenied(failed)) return OnlyRoot(path);
  const bool is_ours = mount != nullptr && mount->type == "fuse.dafs";
  if (absl::IsDeadlineExceeded(failed)) {  // statfs(2) would block on the same mount.dafs
    return absl::UnavailableError(
        absl::StrCat(is_ours ? mount->point : path, ": ", failed.message()));
  }
  // The kernel may answer stat(2) from its cache; statfs(2) always reaches mount.dafs.
  struct statfs info;
  const int error = statfs(path.c_str(), &info) == 0 ? 0 : errno;
  if (!is_ours) {
    return absl::NotFoundError(
        error == ENOENT
            ? absl::StrCat(path, ": no such file or directory")
            : absl::StrCat(path, ": not on a DAFS mount; dafsctl status shows all mounts"));
  }
  if (error == ENOTCONN) {
    return absl::UnavailableError(absl::StrCat(mount->point,
                                               ": dead, its mount.dafs has ended; unmount it: "
                                               "umount ",
                                               mount->point));
  }
  if (absl::IsNotFound(failed) && mount->super_options.find("user_id=0,") == std::string::npos) {
    return absl::UnavailableError(
        absl::StrCat(mount->point, ": mounted by a user; only mounts made by root can be queried"));
  }
  return absl::UnavailableError(absl::StrCat(mount->point, ": ", failed.message()));
}

absl::StatusOr<std::vector<std::string>> AskAll(const MountQuery& query,
                                                const std::string& question) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, MountSockets(query.directory));
  std::vector<std::string> answers;
  bool is_denied = false;  // the group dafs may see the directory
  for (const std::string& path : paths) {
    absl::StatusOr<std::string> text = AskControlSocket(path, question);
    if (!text.ok()) {  // a killed program left the socket, or only root may ask
      is_denied |= absl::IsPermissionDenied(text.status());
      continue;
    }
    answers.push_back(*std::move(text));
  }
  if (answers.empty() && is_denied) return OnlyRoot(query.directory);
  if (answers.empty()) return absl::NotFoundError("no DAFS mount of this machine replies");
  return answers;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> AskMounts(const MountQuery& query,
                                                   const std::string& question) {
  if (query.mount_point.empty()) return AskAll(query, question);
  std::vector<std::string> answers;
  RETURN_IF_ERROR(AskMount(query, [&](const std::string& socket) -> absl::Status {
    ASSIGN_OR_RETURN(std::string answer, AskControlSocket(socket, question));
    answers.push_back(std::move(answer));
    return absl::OkStatus();
  }));
  return answers;
}

absl::Status AskMount(const MountQuery& query,
                      absl::FunctionRef<absl::Status(const std::string& socket)> ask) {
  const std::string path = ResolveMountPoint(query.mount_point);
  const std::vector<MountEntry> mounts = ReadMountTable();
  const MountEntry* const mount = FindMount(mounts, path);
  // A mount in another mount namespace is found only by its socket.
  const bool is_ours = mount != nullptr && mount->type == "fuse.dafs";
  const std::string& point = is_ours ? mount->point : path;
  absl::Status status = ask(LeaseKeeper::SocketPath(query.directory, point));
  if (status.ok() || absl::IsFailedPrecondition(status)) return status;
  return NoAnswer(path, mount, status);
}

absl::StatusOr<std::vector<std::string>> MountSockets(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (LeaseKeeper::IsSocketName(entry.path().filename().string())) {
      paths.push_back(entry.path().string());
    }
  }
  if (error == std::errc::permission_denied) return OnlyRoot(directory);
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace dafs::client
