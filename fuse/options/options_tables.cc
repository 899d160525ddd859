#include "fuse/options/options_tables.h"

#include <sys/mount.h>

#include <algorithm>
#include <iterator>

#include "fuse/options/options.h"

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

std::string_view HelpText() {
  return R"(usage: mount.dafs SERVER[:PORT]:/EXPORT DIR [-fnrsvw] [-o option,...]
       mount -t dafs SERVER[:PORT]:/EXPORT DIR [-o option,...]

Mounts a DAFS export. Write an IPv6 address in brackets: [::1]:/data

  -f, --foreground     stay in the foreground, log to standard error
                       (from mount(8), it means --fake: do everything except the mount)
  -v, --verbose        log more
  -r, -w               the same as -o ro, -o rw
  -s                   ignore unknown options
  -n                   accepted, without effect
  -h, --help           print this text
  -V, --version        print the version

Options, with their defaults; mount.dafs(8) has the details:
Access
  ro | rw              read-only, or read-write (default)
  allow_other | noallow_other
                       whether other users can use the mount (default: if root mounts)
  default_permissions | nodefault_permissions
                       whether the kernel checks modes and ACLs too (default: if root mounts, except
                       exports with all_squash)
  acl | noacl          whether the mount has POSIX ACLs (default: yes). With noacl it requests none and
                       reports that they are not supported; the server still enforces its ACLs
Connection
  proto=auto|tcp|rdma  transport; auto (default) tries rdma, then tcp
  rdmadev=NAME         RDMA device (default: by route)
  windows=auto|on|off  whether the server accesses data buffers through memory windows, each for one
                       request: if the device enforces them (default), if it has any, or never
  spin=N               microseconds to poll for a reply before sleeping, 0..10000 (default 50)
  cpu_latency=auto|off|N
                       microseconds that idle CPUs may take to wake while the mount is busy, 0..10000;
                       auto (default): 0 in a KVM guest with haltpoll and 2 to 8 CPUs, otherwise off
  io_uring=auto|on|off whether the kernel sends requests through io_uring: if it can, always, or
                       never (default)
  port=N               port of the server (default 20149)
  resvport | noresvport
                       whether the mount connects from a port below 1024; exports without `insecure`
                       require one (default: yes, if the mount has the right)
  clientid=NAME        name by which the server knows this machine; needed on a copy of a machine
                       (default: host name and /etc/machine-id)
  nconnect=N           sessions, each with a thread, 1..16 (default 1)
  hard | soft          wait for the server without limit (default), or fail with ETIMEDOUT after timeo
  timeo=N              time limit of soft, in tenths of a second (default 600)
  retry=N              minutes to retry while the server does not answer (default 2; with bg 10000)
  fg | bg              retry in the foreground (default), or in the background after the first attempt
  checksum | nochecksum
                       whether messages and data carry checksums of the DAFS protocol (default: no)
  crc | nocrc          over TCP: whether each frame of the transport carries a CRC32C (default: no)
  byteorder=host|little|big
                       byte order of numbers in messages (default host)
  rdma_read_channel | nordma_read_channel
                       whether the server reads written data through a second connection (default: if
                       the server requires it)
Sizes
  rsize=N, wsize=N     largest read and write in bytes, 4096..1048576 (default 1048576)
  msgsize=N            largest request and response in bytes, 1024..1048576 (default 16384)
  buffers=N            data buffers of each session in MiB, 4..4096 (default 64); allocated on demand
  idle_release=N       seconds after which unused memory is released, 0..86400 (default 60; 0: never)
  uncommitted=N        written data kept until it is on the server's disk, in MiB, 1..4096 (default 64)
Caching
  acregmin=N, acregmax=N
                       attribute cache times of files, in seconds (default 3, 60)
  acdirmin=N, acdirmax=N
                       attribute cache times of directories, in seconds (default 30, 60)
  actimeo=N            sets all four times
  ac | noac            default cache times, or none
  lookupcache=all|pos|none
                       names cached: existing and missing, existing (default), or none
  sync_on_close | nosync_on_close
                       whether close(2) waits for the server's disk (default: no)
  write_behind | nowrite_behind
                       whether write(2) may return before the server has the data (default: yes;
                       with noac: no)
Locking
  local_lock=none|flock|posix|all
                       locks that stay on this machine (default none)
  lock | nolock        the same as local_lock=none, local_lock=all
Others
  remount              change ro, rw, nosuid and similar flags of a mount
  context=, fscontext=, defcontext=, rootcontext=
                       passed to the kernel
Options of mount(8) for all file systems (nosuid, nodev, noexec, noatime, ...) work;
_netdev, nofail, auto, noauto, user, users, x-* and comment= are accepted.

Exit status: 0 mounted, 1 bad usage or not permitted, 2 system error, 32 mount failed.
)";
}

}  // namespace dafs::fuse
