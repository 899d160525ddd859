#include "fuse/mount/attach/mount_syscall.h"

#include <fcntl.h>
#define FUSE_USE_VERSION 35
#include <fuse3/fuse.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/status/mount_point.h"
#include "runtime/files/mount_table.h"

namespace dafs::fuse {
namespace {

Outcome Fail(ExitCode code, std::string reason) { return {code, std::move(reason)}; }

std::string ErrnoText(int error) { return std::strerror(error); }

// The reason and exit code for a failed mount(2).
Outcome MountError(const Options& options, int error) {
  const std::string& dir = options.mount_point;
  switch (error) {
    case EPERM:
    case EACCES:
      return Fail(ExitCode::kUsage, absl::StrCat(dir, ": not permitted to mount here"));
    case ENODEV:
      return Fail(ExitCode::kSystem, "the kernel has no fuse (modprobe fuse)");
    case ENOENT:
      return Fail(ExitCode::kMountFailure, absl::StrCat(dir, ": mount point does not exist"));
    case EBUSY:
      return Fail(ExitCode::kMountFailure, absl::StrCat(dir, ": busy"));
    case EINVAL:
      return Fail(ExitCode::kMountFailure,
                  absl::StrCat(dir, ": the kernel refuses the mount options"));
    default:
      return Fail(error == ENOMEM ? ExitCode::kSystem : ExitCode::kMountFailure,
                  absl::StrCat(dir, ": mount: ", ErrnoText(error)));
  }
}

// The `data` argument of mount(2) for the type fuse.
std::string MountData(const Options& options, int fd) {
  std::vector<std::string> words = {
      absl::StrCat("fd=", fd), "rootmode=40000", absl::StrCat("user_id=", getuid()),
      absl::StrCat("group_id=", getgid()), absl::StrCat("max_read=", options.rsize)};
  if (options.allow_other) words.push_back("allow_other");
  if (options.default_permissions) words.push_back("default_permissions");
  if (!options.security_context.empty()) words.push_back(options.security_context);
  return absl::StrJoin(words, ",");
}

MountResult MountAsRoot(const Options& options) {
  MountResult result;
  result.mount_point = options.mount_point;
  UniqueFd fd(open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    int error = errno;
    bool allowed = error != EPERM && error != EACCES;
    result.outcome = Fail(
        allowed ? ExitCode::kSystem : ExitCode::kUsage,
        absl::StrCat("/dev/fuse: ", ErrnoText(error), error == ENOENT ? " (modprobe fuse)" : ""));
    return result;
  }
  std::string data = MountData(options, fd.get());
  if (mount(options.source.text.c_str(), options.mount_point.c_str(), "fuse.dafs",
            options.mount_flags, data.c_str()) != 0) {
    result.outcome = MountError(options, errno);
    return result;
  }
  result.fd = std::move(fd);
  return result;
}

// fusermount3 does the privileged part. It enforces nosuid, nodev and its own rules.
MountResult MountAsUser(const Options& options) {
  MountResult result;
  result.mount_point = options.mount_point;
  std::vector<std::string> words = {"subtype=dafs", absl::StrCat("max_read=", options.rsize)};
  // libfuse splits at commas unless a backslash precedes them.
  words.push_back(absl::StrCat(
      "fsname=", absl::StrReplaceAll(options.source.text, {{"\\", "\\\\"}, {",", "\\,"}})));
  if (options.mount_flags & MS_RDONLY) words.push_back("ro");
  if (options.mount_flags & MS_NOEXEC) words.push_back("noexec");
  if (options.mount_flags & MS_NOATIME) words.push_back("noatime");
  if (options.mount_flags & MS_SYNCHRONOUS) words.push_back("sync");
  if (options.allow_other) words.push_back("allow_other");
  if (options.default_permissions) words.push_back("default_permissions");
  std::string joined = absl::StrJoin(words, ",");
  UniqueFd fd(fuse_open_channel(options.mount_point.c_str(), joined.c_str()));
  if (!fd.valid()) {
    result.outcome =
        Fail(ExitCode::kUsage, absl::StrCat(options.mount_point, ": fusermount3 failed to mount"));
    return result;
  }
  if (fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0 || fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) {
    result.outcome = Fail(ExitCode::kSystem, absl::StrCat("/dev/fuse: ", ErrnoText(errno)));
    return result;
  }
  result.fd = std::move(fd);
  return result;
}

}  // namespace

Outcome CheckMountPoint(const Options& options) {
  struct stat info;
  struct statfs space;
  const std::string& dir = options.mount_point;
  // stat(2) of a dead mount may succeed from cached attributes. statfs(2) always needs its daemon.
  if (stat(dir.c_str(), &info) != 0 || statfs(dir.c_str(), &space) != 0) {
    int error = errno;
    if (error == ENOENT) {
      return Fail(ExitCode::kMountFailure, absl::StrCat("mount point ", dir, " does not exist"));
    }
    if (error == ENOTCONN) {
      return Fail(ExitCode::kMountFailure,
                  absl::StrCat("mount point ", dir, " holds a dead mount (umount ", dir, ")"));
    }
    return Fail(error == EACCES ? ExitCode::kUsage : ExitCode::kMountFailure,
                absl::StrCat("mount point ", dir, ": ", ErrnoText(error)));
  }
  if (!S_ISDIR(info.st_mode)) {
    return Fail(ExitCode::kMountFailure, absl::StrCat("mount point ", dir, " is not a directory"));
  }
  return {};
}

MountResult MountFuse(const Options& options) {
  return geteuid() == 0 ? MountAsRoot(options) : MountAsUser(options);
}

Outcome ChangeFlags(const Options& options) {
  if (mount(nullptr, options.mount_point.c_str(), nullptr, options.mount_flags | MS_REMOUNT,
            nullptr) == 0) {
    return {};
  }
  return MountError(options, errno);
}

void DetachMount(const std::string& mount_point) {
  if (umount2(mount_point.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0 || errno != EPERM) return;
  char program[] = "fusermount3", unmount[] = "-u", lazy[] = "-z", quiet[] = "-q", end[] = "--";
  std::string point = mount_point;
  char* const arguments[] = {program, unmount, lazy, quiet, end, point.data(), nullptr};
  pid_t pid;
  if (posix_spawnp(&pid, program, nullptr, nullptr, arguments, environ) == 0) {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void SetReadAhead(const std::string& mount_point, uint32_t bytes) {
  const std::vector<MountEntry> mounts = ReadMountTable();
  const MountEntry* const entry = FindMount(mounts, mount_point);
  if (entry == nullptr || entry->point != mount_point) return;
  std::ofstream file(absl::StrCat("/sys/class/bdi/", entry->device, "/read_ahead_kb"));
  if (file) file << bytes / 1024 << std::flush;
}

}  // namespace dafs::fuse
