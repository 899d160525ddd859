#include "fuse/options/option_table.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>
#include <type_traits>
#include <utility>

#include "absl/time/time.h"
#include "runtime/loop/cpu_latency.h"
#include "wire/auth/idmap/id_domain.h"
#include "wire/dat/address.h"

namespace dafs::fuse {
namespace {

constexpr uint32_t kPage = 4096;
constexpr uint32_t kLargestTransfer = 1u << 20;  // 256 pages: the kernel's limit for one request
constexpr uint32_t kLongest = 1u << 30;          // of times

// The type of a field of Options.
template <auto kField>
using TypeOf = std::remove_reference_t<decltype(std::declval<Options&>().*kField)>;

template <auto kField>
constexpr Word Switch() {
  return {[](Options& o, bool is_name) { o.*kField = is_name; }};
}

template <auto kField>
constexpr Number NumberOf(uint32_t least, uint32_t most) {
  return {least, most, [](Options& o, uint32_t n) { o.*kField = static_cast<TypeOf<kField>>(n); }};
}

template <auto kField>
constexpr Number SecondsOf(uint32_t least, uint32_t most) {
  return {least, most, [](Options& o, uint32_t n) { o.*kField = absl::Seconds(n); }};
}

template <auto kField>
constexpr Number TransferSize() {
  return {kPage, kLargestTransfer, [](Options& o, uint32_t n) { o.*kField = n / kPage * kPage; },
          /*clamps=*/true};
}

template <auto kField>
constexpr Choice ChoiceOf(std::string_view names, std::string_view synonyms = {}) {
  return {names, [](Options& o, size_t index) { o.*kField = static_cast<TypeOf<kField>>(index); },
          synonyms};
}

template <auto kField>
constexpr Number CacheTime() {
  return {0, kLongest, [](Options& o, uint32_t n) { o.cache.*kField = absl::Seconds(n); }};
}

void SetCacheTimes(Options& o, absl::Duration time) { o.cache = {time, time, time, time}; }

std::string SetCpuLatency(Options& o, std::string_view value) {
  absl::StatusOr<CpuLatencyOption> option = ParseCpuLatency(value);
  if (!option.ok()) return std::string(option.status().message());
  o.cpu_latency = *option;
  return "";
}

template <auto kField>
std::string SetPlainName(Options& o, std::string_view value) {
  const bool plain = std::all_of(value.begin(), value.end(), [](char c) {
    return std::string_view("-._").find(c) != std::string_view::npos || (c >= '0' && c <= '9') ||
           (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
  if (value.empty() || value.size() > 64 || !plain) {
    return "expected 1 to 64 letters, digits or any of -._";
  }
  o.*kField = std::string(value);
  return "";
}

// The addresses are separated by "+", since "," separates options.
std::string SetAddresses(Options& o, std::string_view value) {
  constexpr size_t kMostAddresses = 16;
  std::vector<std::string> addresses;
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find('+', begin), value.size());
    const std::string_view text = value.substr(begin, end - begin);
    std::string host;
    uint16_t port = 0;
    if (absl::Status split = dat::SplitHostPort(text, &host, &port); !split.ok()) {
      return std::string(split.message());
    }
    if (host.empty() || host.size() > 255) return "expected hosts or addresses, separated by +";
    addresses.emplace_back(text);
    begin = end + 1;
  }
  if (addresses.size() > kMostAddresses) return "expected at most 16 addresses";
  o.addresses = std::move(addresses);
  return "";
}

std::string SetRdmaDevice(Options& o, std::string_view value) {
  if (value.empty()) return "expected the name of a device";
  o.rdma_device = std::string(value);
  return "";
}

std::string SetPrincipal(Options& o, std::string_view value) {
  const bool is_printable =
      std::all_of(value.begin(), value.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (value.empty() || value.size() > 512 || !is_printable) {
    return "expected a principal, such as host/a.example.com@EXAMPLE.COM";
  }
  o.principal = std::string(value);
  return "";
}

std::string SetCache(Options& o, std::string_view value) {
  const bool is_printable =
      std::all_of(value.begin(), value.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (value.empty() || value.size() > 512 || !is_printable) {
    return "expected a credentials cache, such as FILE:/run/user/%{uid}/krb5cc";
  }
  o.ccache = std::string(value);
  return "";
}

std::string SetIdDomain(Options& o, std::string_view value) {
  if (!auth::IsIdDomain(value)) return "expected a domain, such as example.com";
  o.id_domain = std::string(value);
  return "";
}

// A daemon changes its directory, and mount(8) may have another one than fstab's author.
template <auto kField>
std::string SetPath(Options& o, std::string_view value) {
  if (value.empty() || value[0] != '/') return "expected an absolute path";
  o.*kField = std::string(value);
  return "";
}

using enum OptionGroup;

constexpr OptionRow kOptions[] = {
    {kAccess, "ro", "rw", Elsewhere{}, "read-only, or read-write (default)"},
    {kAccess, "allow_other", "noallow_other", Switch<&Options::allow_other>(),
     "whether other users can use the mount (default: if root mounts)"},
    {kAccess, "default_permissions", "nodefault_permissions", Word{[](Options& o, bool is_name) {
       o.default_permissions = is_name;
       o.default_permissions_given = true;
     }},
     "whether the kernel checks modes and ACLs too (default: if root mounts, except exports with "
     "all_squash)"},
    {kAccess, "acl", "noacl", Switch<&Options::acl>(),
     "whether the mount has POSIX ACLs (default: yes). With noacl it requests none and reports "
     "that they are not supported; the server still enforces its ACLs"},
    {kConnection, "proto", "", ChoiceOf<&Options::proto>("auto|tcp|rdma"),
     "transport; auto (default) tries rdma, then tcp"},
    {kConnection, "rdmadev", "", FreeText{"NAME", SetRdmaDevice},
     "RDMA device (default: by route)"},
    {kConnection, "xprtsec", "", ChoiceOf<&Options::xprtsec>("none|tls|mtls"),
     "protection of the connections, which are then over TCP: none (default), TLS, or TLS with a "
     "certificate of this machine"},
    {kConnection, "tlsca", "", FreeText{"FILE", SetPath<&Options::tls_ca>},
     "CAs that may have signed the certificate of the server (default: those of the system)"},
    {kConnection, "tlscert", "", FreeText{"FILE", SetPath<&Options::tls_cert>},
     "certificate of this machine, for xprtsec=mtls"},
    {kConnection, "tlskey", "", FreeText{"FILE", SetPath<&Options::tls_key>},
     "its private key, which other users must not be able to read"},
    {kConnection, "sec", "", ChoiceOf<&Options::sec>("sys|krb5host|text|krb5|krb5i|krb5p"),
     "how the mount authenticates: sys: by address and port (default); krb5host: by the Kerberos "
     "keys of this machine, for all its users; text: by a name and password, as that user; krb5: "
     "each user by a ticket; krb5p, krb5i: krb5 with xprtsec=tls"},
    {kConnection, "credentials", "", FreeText{"FILE", SetPath<&Options::credentials>},
     "the name and password, for sec=text: lines username=NAME and password=PASSWORD, which other "
     "users must not be able to read"},
    {kConnection, "keytab", "", FreeText{"FILE", SetPath<&Options::keytab>},
     "the keys of this machine, for sec=krb5host and sec=krb5 (default: /etc/krb5.keytab)"},
    {kConnection, "principal", "", FreeText{"NAME", SetPrincipal},
     "the principal in the keytab (default: the first one)"},
    {kConnection, "ccache", "", FreeText{"NAME", SetCache},
     "credentials cache of each user, for sec=krb5, with %{uid} (default: the default of the "
     "user)"},
    {kConnection, "max_user_sessions", "", NumberOf<&Options::max_user_sessions>(1, 100'000),
     "sessions of users, for sec=krb5, {} (default 256)"},
    {kConnection, "id_domain", "", FreeText{"DOMAIN", SetIdDomain},
     "ID-mapping domain of this machine, if the server sends owners as name@domain (default: "
     "Domain of /etc/idmapd.conf, or else the DNS domain)"},
    {kConnection, "windows", "", ChoiceOf<&Options::windows>("auto|on|off"),
     "whether the server accesses data buffers through memory windows, each for one request: if "
     "the device enforces them (default), if it has any, or never"},
    // At most 10 ms: beyond that, another thread makes better use of the processor.
    {kConnection, "spin", "",
     Number{0, 10000, [](Options& o, uint32_t n) { o.spin = absl::Microseconds(n); }},
     "microseconds to poll for a reply before sleeping, {} (default 50)"},
    {kConnection, "cpu_latency", "", FreeText{"auto|off|N", SetCpuLatency},
     "microseconds that idle CPUs may take to wake while the mount is busy, 0..10000; auto "
     "(default): 0 in a KVM guest with haltpoll and 2 to 8 CPUs, otherwise off"},
    {kConnection, "io_uring", "", ChoiceOf<&Options::io_uring>("auto|on|off"),
     "whether the kernel sends requests through io_uring: if it can, always, or\nnever (default)"},
    {kConnection, "port", "", NumberOf<&Options::port>(1, 65535),
     "port of the server (default 20149)"},
    {kConnection, "addresses", "", FreeText{"A+B", SetAddresses},
     "further hosts, addresses or [address]:port of the server, separated by +; sessions are "
     "spread "
     "over them, and a session whose path fails takes another"},
    {kConnection, "names", "", FreeText{"FILE", SetPath<&Options::names>},
     "configuration of the name services, with a DAFS name as source (default: "
     "/etc/dafs/names.conf)"},
    {kConnection, "failover_after", "", SecondsOf<&Options::failover_after>(0, 3600),
     "seconds without the server after which the mount tries alternate locations (default 10); if "
     "given, a silent server is noticed after 2 to 3 s"},
    {kConnection, "resvport", "noresvport", Switch<&Options::reserved_port>(),
     "whether the mount connects from a port below 1024; exports without `insecure` require one "
     "(default: yes, if the mount has the right)"},
    {kConnection, "clientid", "", FreeText{"NAME", SetPlainName<&Options::client_id>},
     "name by which the server knows this machine; needed on a copy of a machine (default: host "
     "name and /etc/machine-id)"},
    {kConnection, "fence_id", "", FreeText{"NAME", SetPlainName<&Options::fence_id>},
     "name of this mount in the server's fencing lists, by which a cluster shuts it out (default: "
     "none; then every list shuts it out)"},
    {kConnection, "nconnect", "", NumberOf<&Options::nconnect>(1, 16),
     "sessions, each with a thread, {} (default 1)"},
    {kConnection, "hard", "soft", Word{[](Options& o, bool is_name) { o.soft = !is_name; }},
     "wait for the server without limit (default), or fail with ETIMEDOUT after timeo"},
    {kConnection, "timeo", "",
     Number{1, kLongest, [](Options& o, uint32_t n) { o.timeo = absl::Milliseconds(100) * n; }},
     "time limit of soft, in tenths of a second (default 600)"},
    {kConnection, "retry", "", NumberOf<&Options::retry>(0, 1'000'000),
     "minutes to retry while the server does not answer (default 2; with bg 10000)"},
    {kConnection, "fg", "bg", Word{[](Options& o, bool is_name) { o.background = !is_name; }},
     "retry in the foreground (default), or in the background after the first attempt"},
    {kConnection, "checksum", "nochecksum", Switch<&Options::checksum>(),
     "whether messages and data carry checksums of the DAFS protocol (default: no)"},
    {kConnection, "crc", "nocrc", Switch<&Options::crc>(),
     "over TCP: whether each frame of the transport carries a CRC32C (default: no)"},
    {kConnection, "byteorder", "", ChoiceOf<&Options::byte_order>("host|little|big"),
     "byte order of numbers in messages (default host)"},
    {kConnection, "rdma_read_channel", "nordma_read_channel", Switch<&Options::rdma_read_channel>(),
     "whether the server reads written data through a second connection (default: if the server "
     "requires it)"},
    {kSizes, "rsize", "", TransferSize<&Options::rsize>(),
     "largest read and write in bytes, {} (default 1048576)"},
    {kSizes, "wsize", "", TransferSize<&Options::wsize>(), ""},
    // 1024 is the lowest limit of a request. 1 MiB is far above the largest message of the client.
    {kSizes, "msgsize", "", NumberOf<&Options::msgsize>(1024, 1u << 20),
     "largest request and response in bytes, {} (default 16384)"},
    {kSizes, "buffers", "", NumberOf<&Options::buffers>(4, 4096),
     "data buffers of each session in MiB, {} (default 64); allocated on demand"},
    {kSizes, "idle_release", "", SecondsOf<&Options::idle_release>(0, 86400),
     "seconds after which unused memory is released, {} (default 60; 0: never)"},
    {kSizes, "uncommitted", "", NumberOf<&Options::uncommitted>(1, 4096),
     "written data kept until it is on the server's disk, in MiB, {} (default 64)"},
    {kCaching, "acregmin", "", CacheTime<&CacheTimes::reg_min>(),
     "attribute cache times of files, in seconds (default 3, 60)"},
    {kCaching, "acregmax", "", CacheTime<&CacheTimes::reg_max>(), ""},
    {kCaching, "acdirmin", "", CacheTime<&CacheTimes::dir_min>(),
     "attribute cache times of directories, in seconds (default 30, 60)"},
    {kCaching, "acdirmax", "", CacheTime<&CacheTimes::dir_max>(), ""},
    {kCaching, "actimeo", "",
     Number{0, kLongest, [](Options& o, uint32_t n) { SetCacheTimes(o, absl::Seconds(n)); }},
     "sets all four times"},
    {kCaching, "ac", "noac", Word{[](Options& o, bool is_name) {
       if (is_name) {
         o.cache = CacheTimes();
       } else {
         SetCacheTimes(o, absl::ZeroDuration());
       }
     }},
     "default cache times, or none"},
    {kCaching, "lookupcache", "",
     ChoiceOf<&Options::lookup_cache>("all|pos|none", "all|positive|none"),
     "names cached: existing and missing, existing (default), or none"},
    {kCaching, "callbacks", "nocallbacks", Switch<&Options::callbacks>(),
     "whether the server announces changes, if it can, so that caches are exact (default: yes; "
     "with noac: only free locks)"},
    {kCaching, "delegations", "nodelegations", Switch<&Options::delegations>(),
     "whether files are opened and closed without a request while no other client uses them, if\n"
     "the server supports it (default: yes; with nocallbacks or noac: no)"},
    {kCaching, "sync_on_close", "nosync_on_close", Switch<&Options::sync_on_close>(),
     "whether close(2) waits for the server's disk (default: no)"},
    {kCaching, "write_behind", "nowrite_behind", Switch<&Options::write_behind>(),
     "whether write(2) may return before the server has the data (default: yes;\nwith noac: no)"},
    {kLocking, "local_lock", "", ChoiceOf<&Options::local_lock>("none|flock|posix|all"),
     "locks that stay on this machine (default none)"},
    {kLocking, "lock", "nolock", Word{[](Options& o, bool is_name) {
       o.local_lock = is_name ? LocalLock::kNone : LocalLock::kAll;
     }},
     "the same as local_lock=none, local_lock=all"},
    {kLocking, "persist_locks", "nopersist_locks", Switch<&Options::persist_locks>(),
     "whether locks outlive this client, so that a failed client leaves them broken instead of\n"
     "released (default: no)"},
    {kOthers, "slow", "",
     Number{0, 3'600'000, [](Options& o, uint32_t n) { o.slow = absl::Milliseconds(n); }},
     "milliseconds after which an operation is logged as slow, {} (default 0: none)"},
    {kOthers, "guardian", "noguardian", Word{[](Options& o, bool is_name) {
       o.guardian = is_name;
       o.guardian_given = true;
     }},
     "whether a guardian process runs, so that dafsctl restart can replace mount.dafs, "
     "and a crash does not end the mount (default: if root mounts, except with -f)"},
    {kOthers, "remount", "", Elsewhere{}, "change ro, rw, nosuid and similar flags of a mount"},
    {kOthers, "context=, fscontext=, defcontext=, rootcontext=", "", Elsewhere{},
     "passed to the kernel"},
};

// Splits "a|b|c" and calls `use(index, part)` until it returns true. Returns whether it did.
template <class F>
bool AnyPart(std::string_view parts, F&& use) {
  for (size_t index = 0; !parts.empty(); ++index) {
    const std::string_view part = parts.substr(0, parts.find('|'));
    if (use(index, part)) return true;
    parts.remove_prefix(std::min(parts.size(), part.size() + 1));
  }
  return false;
}

std::string BadNumber(uint32_t least, uint32_t most) {
  return "expected a number from " + std::to_string(least) + " to " + std::to_string(most);
}

// "expected auto, tcp or rdma"
std::string BadChoice(std::string_view names) {
  std::string expected = "expected ";
  const auto last = static_cast<size_t>(std::count(names.begin(), names.end(), '|'));
  AnyPart(names, [&](size_t index, std::string_view name) {
    if (index > 0) expected += index == last ? " or " : ", ";
    expected += name;
    return false;
  });
  return expected;
}

// Each sets the field, or returns why the value is bad.
std::string Set(const Number& number, std::string_view value, Options& o) {
  uint32_t n = 0;
  const uint32_t least = number.clamps ? 1 : number.least;
  const uint32_t most = number.clamps ? std::numeric_limits<uint32_t>::max() : number.most;
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, n);
  if (error != std::errc() || stop != end || n < least || n > most) return BadNumber(least, most);
  number.set(o, std::clamp(n, number.least, number.most));
  return "";
}

std::string Set(const Choice& choice, std::string_view value, Options& o) {
  const auto set = [&](size_t index, std::string_view name) {
    if (name == value) choice.set(o, index);
    return name == value;
  };
  return AnyPart(choice.names, set) || AnyPart(choice.synonyms, set) ? "" : BadChoice(choice.names);
}

std::string Set(const FreeText& text, std::string_view value, Options& o) {
  return text.set(o, value);
}

bool HasValue(const OptionRow& row) {
  return !std::holds_alternative<Word>(row.kind) && !std::holds_alternative<Elsewhere>(row.kind);
}

}  // namespace

std::span<const OptionRow> OptionTable() { return kOptions; }

const OptionRow* FindOption(std::string_view option) {
  const size_t equals = option.find('=');
  const bool has_value = equals != option.npos;
  const std::string_view name = option.substr(0, equals);
  for (const OptionRow& row : kOptions) {
    if (std::holds_alternative<Elsewhere>(row.kind) || HasValue(row) != has_value) continue;
    if (row.name == name || (!row.opposite.empty() && row.opposite == name)) return &row;
  }
  return nullptr;
}

absl::Status ApplyOptionOf(const OptionRow& row, std::string_view option, Options& options) {
  if (const Word* word = std::get_if<Word>(&row.kind)) {
    word->set(options, option == row.name);
    return absl::OkStatus();
  }
  const std::string_view value = option.substr(row.name.size() + 1);
  std::string why;
  if (const Number* number = std::get_if<Number>(&row.kind)) why = Set(*number, value, options);
  if (const Choice* choice = std::get_if<Choice>(&row.kind)) why = Set(*choice, value, options);
  if (const FreeText* text = std::get_if<FreeText>(&row.kind)) why = Set(*text, value, options);
  return why.empty() ? absl::OkStatus() : BadOption(option, why);
}

absl::Status BadOption(std::string_view option, std::string_view why) {
  return absl::InvalidArgumentError(
      std::string("bad option ").append(option).append(": ").append(why));
}

}  // namespace dafs::fuse
