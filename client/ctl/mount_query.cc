#include "client/ctl/mount_query.h"

#include <signal.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/status/mount_point.h"
#include "runtime/files/mount_table.h"
#include "runtime/sockets/control_socket.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

absl::Status OnlyRoot(const std::string& what) {
  return absl::PermissionDeniedError(
      absl::StrCat(what, ": only root and the group dafs can query a mount"));
}

// How long a mount may have no socket: the program that continues it has not opened its own yet.
constexpr absl::Duration kWithoutSocket = absl::Seconds(5);
constexpr absl::Duration kLookAgain = absl::Milliseconds(20);

// statfs(2) by another process, because it waits as long as no mount.dafs answers it. The kernel
// may answer stat(2) from its cache; statfs(2) always reaches mount.dafs, or fails with ENOTCONN.
class StatfsProbe {
 public:
  explicit StatfsProbe(const std::string& path) : pid_(fork()) {
    if (pid_ != 0) return;
    close_range(0, UINT_MAX, 0);  // a reader of our output does not wait for this process
    struct statfs info;
    _exit(statfs(path.c_str(), &info) == 0 ? 0 : errno);
  }
  ~StatfsProbe() {
    if (pid_ > 0 && !result_.has_value()) kill(pid_, SIGKILL);  // it ends when the kernel permits
  }
  StatfsProbe(const StatfsProbe&) = delete;
  StatfsProbe& operator=(const StatfsProbe&) = delete;

  // Its errno, 0 if it succeeded; nullopt: not known yet. Does not block.
  std::optional<int> result() {
    int status = 0;
    if (!result_.has_value() && pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) {
      result_ = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
    }
    return result_;
  }

 private:
  const pid_t pid_;
  std::optional<int> result_;
};

// Whether no program listens on the socket.
bool IsRefused(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsNotFound(status);
}

// The reason why a query for `path`, which is on no DAFS mount of this mount namespace, failed.
absl::Status NoMount(const std::string& path, const absl::Status& failed) {
  if (absl::IsPermissionDenied(failed)) return OnlyRoot(path);
  if (absl::IsDeadlineExceeded(failed)) {
    return absl::UnavailableError(absl::StrCat(path, ": ", failed.message()));
  }
  struct statfs info;
  if (statfs(path.c_str(), &info) != 0 && errno == ENOENT) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file or directory"));
  }
  return absl::NotFoundError(
      absl::StrCat(path, ": not on a DAFS mount; dafsctl status shows all mounts"));
}

// Asks again while another program may be about to continue the mount. `status`: of the first
// request. Blocks for kWithoutSocket at most, besides `ask`.
absl::Status AskAgain(const MountEntry& mount, absl::FunctionRef<absl::Status()> ask,
                      absl::Status status) {
  StatfsProbe probe(mount.point);
  const absl::Time end = absl::Now() + kWithoutSocket;
  while (IsRefused(status)) {
    const std::optional<int> result = probe.result();
    if (result == ENOTCONN) {
      return absl::UnavailableError(
          absl::StrCat("dead, its mount.dafs has ended; unmount it: umount ", mount.point));
    }
    if (!result.has_value() && absl::Now() > end) {
      return absl::UnavailableError(
          absl::StrCat(absl::IsNotFound(status)
                           ? "no mount.dafs opens its socket within "
                           : "its mount.dafs has ended, and no other one continues it within ",
                       absl::FormatDuration(kWithoutSocket), " (", status.message(), ")"));
    }
    if (!result.has_value()) absl::SleepFor(kLookAgain);
    status = ask();
    // The program that has answered statfs(2) had opened its socket before.
    if (result.has_value()) break;
  }
  return status;
}

bool IsOfUser(const MountEntry& mount) {
  return mount.super_options.find("user_id=0,") == std::string::npos;
}

absl::StatusOr<std::vector<std::string>> AskAll(const MountQuery& query,
                                                const std::string& request) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, MountSockets(query.directory));
  std::vector<std::string> answers;
  bool is_denied = false;  // the group dafs may see the directory
  for (const std::string& path : paths) {
    absl::StatusOr<std::string> text = AskControlSocket(path, request);
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
                                                   const std::string& request) {
  if (query.mount_point.empty()) return AskAll(query, request);
  std::vector<std::string> answers;
  RETURN_IF_ERROR(AskMount(query, [&](const std::string& socket) -> absl::Status {
    ASSIGN_OR_RETURN(std::string answer, AskControlSocket(socket, request));
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
  const std::string socket = LeaseKeeper::SocketPath(query.directory, point);
  absl::Status status = ask(socket);
  if (status.ok() || absl::IsFailedPrecondition(status)) return status;
  if (!is_ours) return NoMount(path, status);
  if (IsRefused(status)) {
    status = AskAgain(
        *mount, [&] { return ask(socket); }, status);
    if (status.ok() || absl::IsFailedPrecondition(status)) return status;
  }
  if (absl::IsPermissionDenied(status)) return OnlyRoot(path);
  if (absl::IsNotFound(status) && IsOfUser(*mount)) {
    return absl::UnavailableError(
        absl::StrCat(point, ": mounted by a user; only mounts made by root can be queried"));
  }
  return absl::UnavailableError(absl::StrCat(point, ": ", status.message()));
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
