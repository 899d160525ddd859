#include "fuse/mount/attach/remount.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/status/lease_keeper.h"
#include "client/status/mount_point.h"
#include "fuse/mount/attach/mount_syscall.h"
#include "fuse/options/command_line.h"
#include "fuse/options/mount_flags.h"
#include "runtime/files/mount_table.h"
#include "runtime/sockets/control_socket.h"

namespace dafs::fuse {
namespace {

Outcome Fail(std::string reason) { return {ExitCode::kMountFailure, std::move(reason)}; }

// Options that affect only the start of a mount, not a running one.
bool OnlyForTheStart(const std::string& option) {
  return option == "bg" || option == "fg" || option.starts_with("retry=");
}

// The options of `list` that remount cannot change.
std::vector<std::string> NotFlags(const std::vector<std::string>& list) {
  std::vector<std::string> options;
  for (const std::string& option : list) {
    if (option == "remount" || FindFlagOption(option) != nullptr || IsForOthers(option) ||
        OnlyForTheStart(option)) {
      continue;
    }
    options.push_back(option);
  }
  return options;
}

// The options of the running mount, requested from the mount.dafs that serves it.
absl::StatusOr<Options> Running(const MountEntry& mount) {
  const std::string socket =
      client::LeaseKeeper::SocketPath(client::LeaseKeeperOptions().socket_directory, mount.point);
  absl::StatusOr<std::string> list = AskControlSocket(socket, "options");
  if (!list.ok()) return list.status();
  while (list->ends_with('\n')) list->pop_back();
  const std::vector<std::string> words = {mount.source, mount.point, "-o", *list};
  return ParseOptions(words, {.root = true, .by_mount8 = false});
}

}  // namespace

std::optional<std::string> FirstChange(std::span<const std::string> list, const Options& running,
                                       const std::string& kernel_options) {
  const std::vector<std::string> known = absl::StrSplit(kernel_options, ',');
  Options together = running;
  std::optional<std::string> first;
  for (const std::string& option : list) {
    if (std::find(known.begin(), known.end(), option) != known.end()) continue;
    if (IsSecurityContext(option)) {
      if (running.security_context.find(option) == std::string::npos) return option;
      continue;
    }
    Options alone = running;
    if (!ApplyOption(option, alone).ok() || !ApplyOption(option, together).ok()) return option;
    if (alone != running && !first.has_value()) first = option;
  }
  // Several options may cancel each other out; the last one decides.
  return together == running ? std::nullopt : first;
}

Outcome Remount(const Options& wanted) {
  const std::string& point = wanted.mount_point;
  const std::vector<MountEntry> mounts = ReadMountTable();
  const MountEntry* const mount = FindMount(mounts, point);
  if (mount == nullptr || mount->point != point || mount->type != "fuse.dafs") {
    return Fail(absl::StrCat(point, ": no DAFS mount to change"));
  }
  const std::vector<std::string> kept = NotFlags(wanted.list);
  if (!kept.empty()) {
    absl::StatusOr<Options> running = Running(*mount);
    if (!running.ok()) {
      return Fail(absl::StrCat(point, ": cannot compare ", kept.front(),
                               " with how it is mounted: ", running.status().message(),
                               "; remount with ro, rw and the like alone"));
    }
    if (auto option = FirstChange(kept, *running, mount->super_options)) {
      return Fail(absl::StrCat(point, ": remount cannot change ", *option,
                               "; unmount it, and mount it with that option"));
    }
  }
  return ChangeFlags(wanted);
}

}  // namespace dafs::fuse
