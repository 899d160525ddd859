// The command line of mount.dafs, which mount(8) also writes when it starts us as /sbin/mount.dafs:
//   mount.dafs SERVER[:PORT]:/EXPORT DIR [-sfnvrw] [-t TYPE] [-o option,...]
// Values and pure functions; any thread. Option values have the meaning of nfs(5) where it has the
// option too.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/cpu_latency.h"

namespace dafs::fuse {

// The source of a mount. An IPv6 address is in brackets: [::1]:20149:/export.
struct Source {
  std::string text;         // as given: the source in /proc/mounts
  std::string host;         // name or numeric address, without brackets
  uint16_t port = 0;        // 0: none was given
  std::string export_path;  // begins with '/', no trailing one unless it is "/"
  bool operator==(const Source&) const = default;
};

// kInvalidArgument: the message says what is wrong with `text`.
absl::StatusOr<Source> ParseSource(std::string_view text);

enum class Proto : uint8_t { kAuto, kTcp, kRdma };
enum class Windows : uint8_t { kAuto, kOn, kOff };

// The byte order of numbers in messages. The client chooses it (6.1.1.5).
enum class MessageOrder : uint8_t { kHost, kLittle, kBig };

// How long the kernel may answer from its caches: nfs(5) ac*. From `min`, doubled up to `max` each
// time a revalidation finds no change.
struct CacheTimes {
  absl::Duration reg_min = absl::Seconds(3);
  absl::Duration reg_max = absl::Seconds(60);
  absl::Duration dir_min = absl::Seconds(30);
  absl::Duration dir_max = absl::Seconds(60);
  bool operator==(const CacheTimes&) const = default;
};

enum class LookupCache : uint8_t {
  kAll,       // names that exist and names that do not
  kPositive,  // names that exist (default)
  kNone,
};

// Whether the kernel sends requests by io_uring.
enum class IoUring : uint8_t {
  kAuto,  // if it can
  kOn,    // if it cannot, the mount fails
  kOff,
};

// Which locks the kernel of this machine keeps, unknown to the server: nfs(5) local_lock.
enum class LocalLock : uint8_t { kNone, kFlock, kPosix, kAll };

struct Options {
  Source source;
  std::string mount_point;

  bool foreground = false;  // -f, unless mount(8) gave it
  bool fake = false;        // -f from mount(8): everything but the mount
  bool verbose = false;     // -v
  bool help = false;        // -h, --help
  bool version = false;     // -V, --version
  bool remount = false;     // see fuse/mount/remount.h
  bool background = false;  // bg: return after the first failed attempt, retry in the background
  std::optional<uint32_t> retry;  // minutes; RetryFor has the default

  unsigned long mount_flags = 0;  // MS_RDONLY, MS_NOSUID, ...: for mount(2)
  std::string security_context;   // "context=...": passed to mount(2) unchanged

  Proto proto = Proto::kAuto;
  std::string rdma_device;  // rdmadev=; empty: by route
  Windows windows = Windows::kAuto;
  uint16_t port = 20149;      // from the source, port=, or the default
  std::string client_id;      // clientid=; empty: none given
  bool reserved_port = true;  // connect from a port below 1024, where that is permitted
  uint32_t nconnect = 1;      // 1..16 workers, one session each
  uint32_t rsize = 1u << 20;  // bytes, 4096..1 MiB, whole pages
  uint32_t wsize = 1u << 20;
  bool soft = false;
  absl::Duration timeo = absl::Seconds(60);
  CacheTimes cache;
  LookupCache lookup_cache = LookupCache::kPositive;
  LocalLock local_lock = LocalLock::kNone;
  bool allow_other = false;                // on by default for root
  bool default_permissions = false;        // on by default for root
  bool default_permissions_given = false;  // the option was given, so it alone decides
  bool acl = true;                         // whether the mount has POSIX ACLs at all
  bool sync_on_close = false;              // close(2) waits until what was written is stable
  bool write_behind = true;                // write(2) may return before the server has the data
  bool checksum = false;                   // of messages and data, by the DAFS protocol
  bool crc = false;                        // of the transport's frames, over TCP
  MessageOrder byte_order = MessageOrder::kHost;
  bool rdma_read_channel = false;                // ask for the RDMA-read Channel (3.1.2.3.4)
  absl::Duration spin = absl::Microseconds(50);  // a worker polls so long before it sleeps
  dat::CpuLatencyWish cpu_latency;               // of CPUs that idle, while there is much to do
  IoUring io_uring = IoUring::kOff;
  uint32_t msgsize = 0;       // bytes of the largest request and response; 0: the client's default
  uint32_t uncommitted = 64;  // MiB of written data that a lost server could make us write again
  uint32_t buffers = 0;       // MiB of data buffers for each worker; 0: the client's default
  // Memory is released after this time without use; zero: never.
  absl::Duration idle_release = absl::Seconds(60);

  std::vector<std::string> list;  // what -o, -r and -w gave, option by option

  bool operator==(const Options&) const = default;
};

struct Caller {
  bool root = true;
  bool by_mount8 = false;  // started by mount(8), whose -f means "fake"
};

// Whether the server keeps the locks of flock(2), and those of fcntl(2).
inline bool FlockAtServer(const Options& o) {
  return o.local_lock == LocalLock::kNone || o.local_lock == LocalLock::kPosix;
}
inline bool PosixAtServer(const Options& o) {
  return o.local_lock == LocalLock::kNone || o.local_lock == LocalLock::kFlock;
}

// Whether write(2) may return before the server has the data. Not with noac, which requires that
// attributes are always current (nfs(5)).
inline bool WritesBehind(const Options& o) {
  return o.write_behind && o.cache.reg_max > absl::ZeroDuration();
}

// How long the mount is retried while the server does not answer: nfs(5) retry.
inline absl::Duration RetryFor(const Options& o) {
  constexpr uint32_t kForeground = 2, kBackground = 10000;
  return absl::Minutes(o.retry.value_or(o.background ? kBackground : kForeground));
}

// Applies one option of -o to `options`. kInvalidArgument: a one-line reason.
absl::Status ApplyOption(std::string_view option, Options& options);

// `arguments` without the program's name. With remount, options are only collected in `list`,
// except the flags of mount(2). With help or version set, the rest is not checked.
// kInvalidArgument: a one-line reason, without the program's name.
absl::StatusOr<Options> ParseOptions(std::span<const std::string> arguments, const Caller& caller);

// Whether our parent is mount(8).
bool StartedByMount8();

// What --help prints.
std::string_view HelpText();

}  // namespace dafs::fuse
