#include "fuse/options/mount_flags.h"

#include <sys/mount.h>

#include <algorithm>
#include <iterator>

namespace dafs::fuse {
namespace {

constexpr unsigned long kAtimes = MS_NOATIME | MS_RELATIME | MS_STRICTATIME;
constexpr unsigned long kOwnersecure = MS_NOSUID | MS_NODEV;

// Options that mount(8) lists as independent of the file system. `user` and similar options set
// the flags that they imply, because only mount(8) expands them.
constexpr FlagOption kFlagOptions[] = {
    {"defaults", 0, 0},
    {"ro", MS_RDONLY, 0},
    {"rw", 0, MS_RDONLY},
    {"suid", 0, MS_NOSUID},
    {"nosuid", MS_NOSUID, 0},
    {"dev", 0, MS_NODEV},
    {"nodev", MS_NODEV, 0},
    {"exec", 0, MS_NOEXEC},
    {"noexec", MS_NOEXEC, 0},
    {"sync", MS_SYNCHRONOUS, 0},
    {"async", 0, MS_SYNCHRONOUS},
    {"dirsync", MS_DIRSYNC, 0},
    {"atime", 0, MS_NOATIME},
    {"noatime", MS_NOATIME, kAtimes},
    {"diratime", 0, MS_NODIRATIME},
    {"nodiratime", MS_NODIRATIME, 0},
    {"relatime", MS_RELATIME, kAtimes},
    {"norelatime", 0, MS_RELATIME},
    {"strictatime", MS_STRICTATIME, kAtimes},
    {"nostrictatime", 0, MS_STRICTATIME},
    {"lazytime", MS_LAZYTIME, 0},
    {"nolazytime", 0, MS_LAZYTIME},
    {"silent", MS_SILENT, 0},
    {"loud", 0, MS_SILENT},
    {"iversion", 0, 0},
    {"noiversion", 0, 0},
    {"symfollow", 0, MS_NOSYMFOLLOW},
    {"nosymfollow", MS_NOSYMFOLLOW, 0},
    {"user", kOwnersecure | MS_NOEXEC, 0},
    {"users", kOwnersecure | MS_NOEXEC, 0},
    {"owner", kOwnersecure, 0},
    {"group", kOwnersecure, 0},
};

constexpr std::string_view kForOthers[] = {"_netdev", "_rnetdev", "nofail",  "auto",    "noauto",
                                           "nouser",  "nousers",  "noowner", "nogroup", "quiet"};
// For `user`, mount(8) passes `user=NAME` and the flags that it implies.
constexpr std::string_view kPrefixesForOthers[] = {
    "x-", "X-", "comment=", "user=", "uhelper=", "helper="};
constexpr std::string_view kContexts[] = {"context=", "fscontext=", "defcontext=", "rootcontext="};

bool HasPrefixOf(std::string_view option, auto& prefixes) {
  return std::any_of(std::begin(prefixes), std::end(prefixes),
                     [&](std::string_view prefix) { return option.starts_with(prefix); });
}

}  // namespace

const FlagOption* FindFlagOption(std::string_view option) {
  for (const FlagOption& flag : kFlagOptions) {
    if (flag.name == option) return &flag;
  }
  return nullptr;
}

bool IsForOthers(std::string_view option) {
  return std::find(std::begin(kForOthers), std::end(kForOthers), option) != std::end(kForOthers) ||
         HasPrefixOf(option, kPrefixesForOthers);
}

bool IsSecurityContext(std::string_view option) { return HasPrefixOf(option, kContexts); }

}  // namespace dafs::fuse
