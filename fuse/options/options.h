// The content of the command line of mount.dafs (fuse/options/command_line.h).
// Values and pure functions; any thread. An option that nfs(5) also has means the same here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "fuse/options/source.h"
#include "runtime/loop/cpu_latency.h"

namespace dafs::fuse {

enum class Proto : uint8_t { kAuto, kTcp, kRdma };
// xprtsec=: how the connections are protected.
enum class Xprtsec : uint8_t { kNone, kTls, kMtls };

// sec=: how the mount authenticates: by nothing but its address and port, by the Kerberos keys of
// this machine, by a name and password, or each user by a ticket of their own. kKrb5i and kKrb5p:
// kKrb5 with TLS, and kKrb5 once the options are parsed.
enum class Sec : uint8_t { kSys, kKrb5Host, kText, kKrb5, kKrb5i, kKrb5p };

enum class Windows : uint8_t { kAuto, kOn, kOff };

// The byte order of numbers in messages. The client chooses it (6.1.1.5).
enum class MessageOrder : uint8_t { kHost, kLittle, kBig };

// How long the kernel may answer from its caches: nfs(5) ac*. The time starts at `min` and doubles
// up to `max` each time a revalidation finds no change.
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

// Which locks only the kernel of this machine keeps, without the server: nfs(5) local_lock.
enum class LocalLock : uint8_t { kNone, kFlock, kPosix, kAll };

struct Options {
  Source source;
  std::string mount_point;

  bool foreground = false;  // -f, unless mount(8) gave it
  bool fake = false;        // -f from mount(8): does everything except mount(2)
  bool verbose = false;     // -v
  bool help = false;        // -h, --help
  bool version = false;     // -V, --version
  bool remount = false;     // see fuse/mount/attach/remount.h
  bool background = false;  // bg: return after the first failed attempt, retry in the background
  std::optional<uint32_t> retry;  // minutes; RetryFor has the default

  unsigned long mount_flags = 0;  // MS_RDONLY, MS_NOSUID, ...: for mount(2)
  std::string security_context;   // "context=...": passed to mount(2) unchanged

  Proto proto = Proto::kAuto;
  std::string rdma_device;  // rdmadev=; empty: the device of the route to the server
  Windows windows = Windows::kAuto;
  Xprtsec xprtsec = Xprtsec::kNone;
  std::string tls_ca;    // tlsca=; empty: the CAs of the system
  std::string tls_cert;  // tlscert=, tlskey=: with kMtls
  std::string tls_key;
  Sec sec = Sec::kSys;
  std::string keytab;                  // keytab=; empty: /etc/krb5.keytab
  std::string principal;               // principal=; empty: the first one of the keytab
  std::string ccache;                  // ccache=, with %{uid}; empty: the default of each user
  uint32_t max_user_sessions = 256;    // of users, with kKrb5
  std::string credentials;             // credentials=: the name and password of kText
  std::string id_domain;               // id_domain=; empty: of this machine (idmapd.conf)
  std::vector<std::string> addresses;  // addresses=: further ones of the server, HOST or HOST:PORT
  std::string names;  // names=: the configuration of name services; empty: the default
  // failover_after=; nullopt: not given, so that a dead peer is not noticed early for its sake.
  std::optional<absl::Duration> failover_after;
  uint16_t port = 20149;      // from the source, port=, or the default
  std::string client_id;      // clientid=; empty: none given
  std::string fence_id;       // fence_id=; empty: none
  bool reserved_port = true;  // connect from a port below 1024, where that is permitted
  uint32_t nconnect = 1;      // 1..16 workers, one session each
  uint32_t rsize = 1u << 20;  // bytes, 4096..1 MiB, whole pages
  uint32_t wsize = 1u << 20;
  bool soft = false;
  absl::Duration timeo = absl::Seconds(60);
  CacheTimes cache;
  LookupCache lookup_cache = LookupCache::kPositive;
  bool callbacks = true;  // request that the server announces changes
  bool delegations = true;
  LocalLock local_lock = LocalLock::kNone;
  bool persist_locks = false;              // locks at the server are persistent
  bool allow_other = false;                // on by default for root
  bool default_permissions = false;        // on by default for root
  bool default_permissions_given = false;  // given explicitly; squashing does not change it then
  bool acl = true;                         // whether the mount has POSIX ACLs at all
  bool sync_on_close = false;              // close(2) waits until what was written is stable
  bool write_behind = true;                // write(2) may return before the server has the data
  bool checksum = false;                   // DAFS checksums of messages and data
  bool crc = false;                        // CRC of the transport's frames, over TCP
  MessageOrder byte_order = MessageOrder::kHost;
  bool rdma_read_channel = false;                // ask for the RDMA-read Channel (3.1.2.3.4)
  absl::Duration spin = absl::Microseconds(50);  // how long a worker polls before it sleeps
  CpuLatencyOption cpu_latency;                  // limits the idle states of CPUs under load
  IoUring io_uring = IoUring::kOff;
  // Whether a guardian process stays, so that the program can be replaced. On by default for root
  // in the background.
  bool guardian = false;
  bool guardian_given = false;
  uint32_t msgsize = 0;       // bytes of the largest request and response; 0: the client's default
  uint32_t uncommitted = 64;  // MiB of uncommitted data that the client keeps to write it again
  uint32_t buffers = 0;       // MiB of data buffers for each worker; 0: the client's default
  // Memory is released after it was unused for this time; zero: never.
  absl::Duration idle_release = absl::Seconds(60);

  absl::Duration slow;  // operations that take this long are logged; zero: none

  std::vector<std::string> list;  // the options that -o, -r and -w gave, one by one

  bool operator==(const Options&) const = default;
};

// Whether the server keeps the locks of flock(2), and those of fcntl(2).
inline bool FlockAtServer(const Options& o) {
  return o.local_lock == LocalLock::kNone || o.local_lock == LocalLock::kPosix;
}
inline bool PosixAtServer(const Options& o) {
  return o.local_lock == LocalLock::kNone || o.local_lock == LocalLock::kFlock;
}

// Whether write(2) may return before the server has the data. False with noac, which requires
// current attributes at all times (nfs(5)).
inline bool WritesBehind(const Options& o) {
  return o.write_behind && o.cache.reg_max > absl::ZeroDuration();
}

// Whether the mount requests that the server announces changes. Not with noac, which caches
// nothing, nor with a session for each user: announcements are for one client.
inline bool TakesPromises(const Options& o) {
  return o.callbacks && o.sec != Sec::kKrb5 && o.cache.reg_max > absl::ZeroDuration() &&
         o.cache.dir_max > absl::ZeroDuration();
}

// Whether the mount requests delegations, which need promises.
inline bool TakesDelegations(const Options& o) { return o.delegations && TakesPromises(o); }

// How long the mount is retried while the server does not answer: nfs(5) retry.
inline absl::Duration RetryFor(const Options& o) {
  constexpr uint32_t kForeground = 2, kBackground = 10000;
  return absl::Minutes(o.retry.value_or(o.background ? kBackground : kForeground));
}

}  // namespace dafs::fuse
