#include "fuse/options/options.h"

#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "fuse/options/options_tables.h"
#include "runtime/status_macros.h"

namespace dafs::fuse {
namespace {

constexpr uint32_t kPage = 4096;
constexpr uint32_t kLargestTransfer = 1u << 20;  // 256 pages: the kernel's limit for one request

// absl::StrCat cannot be used: Debian builds Abseil with its own string_view type.
std::string Cat(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (std::string_view part : parts) all += part;
  return all;
}

absl::Status Bad(std::string_view what, std::string_view why) {
  return absl::InvalidArgumentError(Cat({"bad option ", what, ": ", why}));
}

absl::StatusOr<uint32_t> Number(std::string_view name, std::string_view value, uint32_t least,
                                uint32_t most) {
  uint32_t number = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least ||
      number > most) {
    return Bad(Cat({name, "=", value}), Cat({"expected a number from ", std::to_string(least),
                                             " to ", std::to_string(most)}));
  }
  return number;
}

// rsize and wsize, as in nfs(5): a value out of range becomes the nearest one in range.
absl::StatusOr<uint32_t> TransferSize(std::string_view name, std::string_view value) {
  ASSIGN_OR_RETURN(uint32_t bytes, Number(name, value, 1, std::numeric_limits<uint32_t>::max()));
  return std::clamp(bytes, kPage, kLargestTransfer) / kPage * kPage;
}

absl::StatusOr<absl::Duration> CacheSeconds(std::string_view name, std::string_view value) {
  ASSIGN_OR_RETURN(uint32_t seconds, Number(name, value, 0, 1u << 30));
  return absl::Seconds(seconds);
}

absl::StatusOr<Proto> ParseProto(std::string_view value) {
  if (value == "auto") return Proto::kAuto;
  if (value == "tcp") return Proto::kTcp;
  if (value == "rdma") return Proto::kRdma;
  return Bad(Cat({"proto=", value}), "expected auto, tcp or rdma");
}

// Parses an enumeration with these three values.
template <class Choice>
absl::StatusOr<Choice> ParseAutoOnOff(std::string_view name, std::string_view value) {
  if (value == "auto") return Choice::kAuto;
  if (value == "on") return Choice::kOn;
  if (value == "off") return Choice::kOff;
  return Bad(Cat({name, "=", value}), "expected auto, on or off");
}

absl::StatusOr<LookupCache> ParseLookupCache(std::string_view value) {
  if (value == "all") return LookupCache::kAll;
  if (value == "pos" || value == "positive") return LookupCache::kPositive;
  if (value == "none") return LookupCache::kNone;
  return Bad(Cat({"lookupcache=", value}), "expected all, pos or none");
}

absl::StatusOr<LocalLock> ParseLocalLock(std::string_view value) {
  if (value == "none") return LocalLock::kNone;
  if (value == "flock") return LocalLock::kFlock;
  if (value == "posix") return LocalLock::kPosix;
  if (value == "all") return LocalLock::kAll;
  return Bad(Cat({"local_lock=", value}), "expected none, flock, posix or all");
}

absl::StatusOr<MessageOrder> ParseByteOrder(std::string_view value) {
  if (value == "host") return MessageOrder::kHost;
  if (value == "little") return MessageOrder::kLittle;
  if (value == "big") return MessageOrder::kBig;
  return Bad(Cat({"byteorder=", value}), "expected host, little or big");
}

void SetCacheTimes(Options& o, absl::Duration time) { o.cache = {time, time, time, time}; }

// Applies an option with a value. Returns false if `name` is none of these options.
absl::StatusOr<bool> ApplyValue(std::string_view name, std::string_view value, Options& o) {
  if (name == "proto") {
    ASSIGN_OR_RETURN(o.proto, ParseProto(value));
  } else if (name == "windows") {
    ASSIGN_OR_RETURN(o.windows, ParseAutoOnOff<Windows>(name, value));
  } else if (name == "lookupcache") {
    ASSIGN_OR_RETURN(o.lookup_cache, ParseLookupCache(value));
  } else if (name == "local_lock") {
    ASSIGN_OR_RETURN(o.local_lock, ParseLocalLock(value));
  } else if (name == "byteorder") {
    ASSIGN_OR_RETURN(o.byte_order, ParseByteOrder(value));
  } else if (name == "io_uring") {
    ASSIGN_OR_RETURN(o.io_uring, ParseAutoOnOff<IoUring>(name, value));
  } else if (name == "port") {
    ASSIGN_OR_RETURN(uint32_t port, Number(name, value, 1, 65535));
    o.port = static_cast<uint16_t>(port);
  } else if (name == "nconnect") {
    ASSIGN_OR_RETURN(o.nconnect, Number(name, value, 1, 16));
  } else if (name == "rsize") {
    ASSIGN_OR_RETURN(o.rsize, TransferSize(name, value));
  } else if (name == "wsize") {
    ASSIGN_OR_RETURN(o.wsize, TransferSize(name, value));
  } else if (name == "timeo") {
    ASSIGN_OR_RETURN(uint32_t deciseconds, Number(name, value, 1, 1u << 30));
    o.timeo = absl::Milliseconds(100) * deciseconds;
  } else if (name == "actimeo") {
    ASSIGN_OR_RETURN(absl::Duration time, CacheSeconds(name, value));
    SetCacheTimes(o, time);
  } else if (name == "acregmin") {
    ASSIGN_OR_RETURN(o.cache.reg_min, CacheSeconds(name, value));
  } else if (name == "acregmax") {
    ASSIGN_OR_RETURN(o.cache.reg_max, CacheSeconds(name, value));
  } else if (name == "acdirmin") {
    ASSIGN_OR_RETURN(o.cache.dir_min, CacheSeconds(name, value));
  } else if (name == "acdirmax") {
    ASSIGN_OR_RETURN(o.cache.dir_max, CacheSeconds(name, value));
  } else if (name == "msgsize") {
    // 1024 is the lowest limit of a request. 1 MiB is far above the largest message of the client.
    ASSIGN_OR_RETURN(o.msgsize, Number(name, value, 1024, 1u << 20));
  } else if (name == "uncommitted") {
    ASSIGN_OR_RETURN(o.uncommitted, Number(name, value, 1, 4096));
  } else if (name == "buffers") {
    ASSIGN_OR_RETURN(o.buffers, Number(name, value, 4, 4096));
  } else if (name == "idle_release") {
    ASSIGN_OR_RETURN(const uint32_t seconds, Number(name, value, 0, 86400));
    o.idle_release = absl::Seconds(seconds);
  } else if (name == "spin") {
    // At most 10 ms: beyond that, another thread makes better use of the processor.
    ASSIGN_OR_RETURN(uint32_t microseconds, Number(name, value, 0, 10000));
    o.spin = absl::Microseconds(microseconds);
  } else if (name == "cpu_latency") {
    absl::StatusOr<dat::CpuLatencyWish> wish = dat::ParseCpuLatency(value);
    if (!wish.ok()) return Bad(Cat({"cpu_latency=", value}), std::string(wish.status().message()));
    o.cpu_latency = *wish;
  } else if (name == "retry") {
    ASSIGN_OR_RETURN(o.retry, Number(name, value, 0, 1'000'000));
  } else if (name == "clientid") {
    const bool plain = std::all_of(value.begin(), value.end(), [](char c) {
      return std::string_view("-._").find(c) != std::string_view::npos || (c >= '0' && c <= '9') ||
             (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    });
    if (value.empty() || value.size() > 64 || !plain) {
      return Bad(Cat({"clientid=", value}), "expected 1 to 64 letters, digits or any of -._");
    }
    o.client_id = std::string(value);
  } else if (name == "rdmadev") {
    if (value.empty()) return Bad("rdmadev=", "expected the name of a device");
    o.rdma_device = std::string(value);
  } else {
    return false;
  }
  return true;
}

bool ApplyWord(std::string_view word, Options& o) {
  if (word == "hard") {
    o.soft = false;
  } else if (word == "soft") {
    o.soft = true;
  } else if (word == "ac") {
    o.cache = CacheTimes();
  } else if (word == "noac") {
    SetCacheTimes(o, absl::ZeroDuration());
  } else if (word == "allow_other" || word == "noallow_other") {
    o.allow_other = word == "allow_other";
  } else if (word == "default_permissions" || word == "nodefault_permissions") {
    o.default_permissions = word == "default_permissions";
    o.default_permissions_given = true;
  } else if (word == "acl" || word == "noacl") {
    o.acl = word == "acl";
  } else if (word == "sync_on_close" || word == "nosync_on_close") {
    o.sync_on_close = word == "sync_on_close";
  } else if (word == "write_behind" || word == "nowrite_behind") {
    o.write_behind = word == "write_behind";
  } else if (word == "resvport" || word == "noresvport") {
    o.reserved_port = word == "resvport";
  } else if (word == "crc" || word == "nocrc") {
    o.crc = word == "crc";
  } else if (word == "checksum" || word == "nochecksum") {
    o.checksum = word == "checksum";
  } else if (word == "rdma_read_channel" || word == "nordma_read_channel") {
    o.rdma_read_channel = word == "rdma_read_channel";
  } else if (word == "lock" || word == "nolock") {
    o.local_lock = word == "lock" ? LocalLock::kNone : LocalLock::kAll;
  } else if (word == "bg" || word == "fg") {
    o.background = word == "bg";
  } else {
    return false;
  }
  return true;
}

bool ApplyFlag(std::string_view option, Options& o) {
  const FlagOption* flag = FindFlagOption(option);
  if (flag == nullptr) return false;
  o.mount_flags = (o.mount_flags & ~flag->clears) | flag->sets;
  return true;
}

// Returns false if the option is unknown.
absl::StatusOr<bool> ApplyKnown(std::string_view option, Options& o) {
  if (ApplyFlag(option, o) || ApplyWord(option, o) || IsForOthers(option)) return true;
  if (IsSecurityContext(option)) {
    o.security_context += Cat({o.security_context.empty() ? "" : ",", option});
    return true;
  }
  const size_t equals = option.find('=');
  if (equals == option.npos) return false;
  return ApplyValue(option.substr(0, equals), option.substr(equals + 1), o);
}

absl::Status NotKnown(std::string_view option) {
  return Bad(option, "unknown; see mount.dafs --help");
}

std::vector<std::string> SplitLists(const std::vector<std::string>& lists) {
  std::vector<std::string> options;
  for (std::string_view rest : lists) {
    while (!rest.empty()) {
      std::string_view option = rest.substr(0, rest.find(','));
      if (!option.empty()) options.emplace_back(option);
      rest.remove_prefix(std::min(rest.size(), option.size() + 1));
    }
  }
  return options;
}

absl::Status CheckTogether(const Options& o) {
  if (o.cache.reg_min > o.cache.reg_max || o.cache.dir_min > o.cache.dir_max) {
    return Bad("ac*", "a minimum is larger than its maximum");
  }
  if (o.proto == Proto::kTcp && !o.rdma_device.empty()) {
    return Bad(Cat({"rdmadev=", o.rdma_device}), "not allowed with proto=tcp");
  }
  return absl::OkStatus();
}

// Iterates over the words of a command line.
class Words {
 public:
  explicit Words(std::span<const std::string> words) : words_(words) {}
  bool done() const { return next_ == words_.size(); }
  const std::string& Take() { return words_[next_++]; }

 private:
  std::span<const std::string> words_;
  size_t next_ = 0;
};

struct CommandLine {
  Options options;
  std::vector<std::string> positional;
  std::vector<std::string> option_lists;
  bool sloppy = false;
};

// Reads one cluster of letters, such as "-fv". `-oLIST` and `-o LIST` are the same.
absl::Status ParseLetters(const std::string& word, const Caller& caller, Words& words,
                          CommandLine& line) {
  for (size_t i = 1; i < word.size(); ++i) {
    char letter = word[i];
    if (letter == 'o' || letter == 't' || letter == 'N') {
      std::string value = word.substr(i + 1);
      if (value.empty() && words.done()) {
        return absl::InvalidArgumentError(Cat({"-", std::string(1, letter), ": expected a value"}));
      }
      if (value.empty()) value = words.Take();
      if (letter == 'N')
        return absl::InvalidArgumentError("-N: other mount namespaces are not supported");
      if (letter == 'o') line.option_lists.push_back(value);
      return absl::OkStatus();
    }
    switch (letter) {
      case 'f':
        (caller.by_mount8 ? line.options.fake : line.options.foreground) = true;
        break;
      case 'v':
        line.options.verbose = true;
        break;
      case 's':
        line.sloppy = true;
        break;
      case 'n':  // "no /etc/mtab": ignored, since current systems have no such file
        break;
      case 'r':
        line.option_lists.push_back("ro");
        break;
      case 'w':
        line.option_lists.push_back("rw");
        break;
      case 'h':
        line.options.help = true;
        break;
      case 'V':
        line.options.version = true;
        break;
      default:
        return absl::InvalidArgumentError(Cat({"unknown flag -", std::string(1, letter)}));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CommandLine> ReadWords(std::span<const std::string> arguments,
                                      const Caller& caller) {
  CommandLine line;
  Words words(arguments);
  bool flags_end = false;
  while (!words.done()) {
    const std::string& word = words.Take();
    if (flags_end || word.size() < 2 || word[0] != '-') {
      line.positional.push_back(word);
    } else if (word == "--") {
      flags_end = true;
    } else if (word == "--help") {
      line.options.help = true;
    } else if (word == "--version") {
      line.options.version = true;
    } else if (word == "--foreground") {
      line.options.foreground = true;
    } else if (word == "--verbose") {
      line.options.verbose = true;
    } else if (word[1] == '-') {
      return absl::InvalidArgumentError(Cat({"unknown flag ", word}));
    } else {
      RETURN_IF_ERROR(ParseLetters(word, caller, words, line));
    }
  }
  return line;
}

absl::StatusOr<uint16_t> ParsePort(std::string_view text, std::string_view source) {
  absl::StatusOr<uint32_t> port = Number("port", text, 1, 65535);
  if (!port.ok()) {
    return absl::InvalidArgumentError(Cat({"bad source ", source, ": ", text, " is not a port"}));
  }
  return static_cast<uint16_t>(*port);
}

}  // namespace

absl::StatusOr<Source> ParseSource(std::string_view text) {
  auto bad = [&](std::string_view why) {
    return absl::InvalidArgumentError(Cat({"bad source ", text, ": ", why}));
  };
  Source source;
  source.text = std::string(text);
  std::string_view rest = text;
  if (rest.starts_with("[")) {
    size_t close = rest.find(']');
    if (close == rest.npos) return bad("no closing bracket");
    source.host = std::string(rest.substr(1, close - 1));
    rest.remove_prefix(close + 1);
  } else {
    size_t end = rest.find(':');
    if (end == rest.npos || rest.substr(0, end).find('/') != rest.npos) {
      return bad("expected SERVER[:PORT]:/EXPORT");
    }
    source.host = std::string(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  if (source.host.empty()) return bad("no server");
  if (!rest.starts_with(":")) return bad("no ':' after the server");
  rest.remove_prefix(1);
  if (!rest.starts_with("/")) {
    size_t end = rest.find(":/");
    if (end == rest.npos) return bad("no ':/EXPORT' (write an IPv6 address in brackets)");
    ASSIGN_OR_RETURN(source.port, ParsePort(rest.substr(0, end), text));
    rest.remove_prefix(end + 1);
  }
  while (rest.size() > 1 && rest.ends_with("/")) rest.remove_suffix(1);
  source.export_path = std::string(rest);
  for (std::string_view path = rest; !path.empty();) {
    path.remove_prefix(1);
    const std::string_view name = path.substr(0, path.find('/'));
    if (name == "." || name == "..") {
      return bad("the path must not contain '.' or '..'");
    }
    path.remove_prefix(name.size());
  }
  return source;
}

absl::Status ApplyOption(std::string_view option, Options& options) {
  ASSIGN_OR_RETURN(bool known, ApplyKnown(option, options));
  return known ? absl::OkStatus() : NotKnown(option);
}

absl::StatusOr<Options> ParseOptions(std::span<const std::string> arguments, const Caller& caller) {
  ASSIGN_OR_RETURN(CommandLine line, ReadWords(arguments, caller));
  Options& o = line.options;
  if (o.help || o.version) return o;
  if (line.positional.size() != 2) {
    return absl::InvalidArgumentError(
        line.positional.size() > 2
            ? Cat({"too many arguments: ", line.positional[2]})
            : "usage: mount.dafs SERVER[:PORT]:/EXPORT DIR [-fv] [-o option,...]");
  }
  o.mount_point = line.positional[1];
  // A mount by root is meant for other users, so the kernel checks modes before it sends a request.
  o.allow_other = o.default_permissions = caller.root;
  o.port = 0;
  o.list = SplitLists(line.option_lists);
  o.remount = std::find(o.list.begin(), o.list.end(), "remount") != o.list.end();
  for (const std::string& option : o.list) {
    if (o.remount) {
      ApplyFlag(option, o);
      continue;
    }
    ASSIGN_OR_RETURN(bool known, ApplyKnown(option, o));
    if (!known && !line.sloppy) return NotKnown(option);
  }
  RETURN_IF_ERROR(CheckTogether(o));
  if (o.remount) return o;  // the source is not checked: mount(8) may spell it differently
  ASSIGN_OR_RETURN(o.source, ParseSource(line.positional[0]));
  if (o.port != 0 && o.source.port != 0 && o.port != o.source.port) {
    return Bad(Cat({"port=", std::to_string(o.port)}),
               Cat({"the source has port ", std::to_string(o.source.port)}));
  }
  if (o.port == 0) o.port = o.source.port != 0 ? o.source.port : Options().port;
  return o;
}

bool StartedByMount8() {
  std::ifstream comm("/proc/" + std::to_string(getppid()) + "/comm");
  std::string name;
  return std::getline(comm, name) && name == "mount";
}

}  // namespace dafs::fuse
