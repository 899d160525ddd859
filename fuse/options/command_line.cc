#include "fuse/options/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fuse/options/mount_flags.h"
#include "fuse/options/option_table.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

namespace dafs::fuse {
namespace {

bool ApplyFlag(std::string_view option, Options& o) {
  const FlagOption* flag = FindFlagOption(option);
  if (flag == nullptr) return false;
  o.mount_flags = (o.mount_flags & ~flag->clears) | flag->sets;
  return true;
}

// Returns false if the option is unknown.
absl::StatusOr<bool> ApplyKnown(std::string_view option, Options& o) {
  if (ApplyFlag(option, o) || IsForOthers(option)) return true;
  if (IsSecurityContext(option)) {
    absl::StrAppend(&o.security_context, o.security_context.empty() ? "" : ",", Text(option));
    return true;
  }
  const OptionRow* row = FindOption(option);
  if (row == nullptr) return false;
  RETURN_IF_ERROR(ApplyOptionOf(*row, option, o));
  return true;
}

absl::Status NotKnown(std::string_view option) {
  return BadOption(option, "unknown; see mount.dafs --help");
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

// With a session for each user.
absl::Status CheckUsers(const Options& o) {
  if (o.sec != Sec::kKrb5) return absl::OkStatus();
  if (o.guardian_given && o.guardian) {
    return BadOption("guardian", "not allowed with sec=krb5: no program can continue the mount");
  }
  if (o.default_permissions_given && !o.default_permissions) {
    return BadOption("nodefault_permissions",
                     "not allowed with sec=krb5: users would see what is cached of others");
  }
  return absl::OkStatus();
}

absl::Status CheckProtection(const Options& o) {
  if ((o.sec == Sec::kText) != !o.credentials.empty()) {
    return o.sec == Sec::kText ? BadOption("sec=text", "needs credentials=")
                               : BadOption("credentials=", "needs sec=text");
  }
  if (o.sec == Sec::kText && o.xprtsec == Xprtsec::kNone) {
    return BadOption("sec=text",
                     "needs xprtsec=tls or xprtsec=mtls: a password is sent over TLS only");
  }
  const bool has_keys = o.sec == Sec::kKrb5Host || o.sec == Sec::kKrb5;
  if (!has_keys && !(o.keytab.empty() && o.principal.empty())) {
    return BadOption(o.keytab.empty() ? "principal=" : "keytab=", "needs sec=krb5host or sec=krb5");
  }
  if (o.sec != Sec::kKrb5 && !o.ccache.empty()) return BadOption("ccache=", "needs sec=krb5");
  RETURN_IF_ERROR(CheckUsers(o));
  if (o.xprtsec == Xprtsec::kNone) {
    if (!o.tls_ca.empty()) return BadOption("tlsca=", "needs xprtsec=tls or xprtsec=mtls");
  } else if (o.proto == Proto::kRdma || !o.rdma_device.empty()) {
    return BadOption("xprtsec=", "RDMA devices have no TLS; use proto=tcp");
  }
  const bool has_both = !o.tls_cert.empty() && !o.tls_key.empty();
  const bool has_any = !o.tls_cert.empty() || !o.tls_key.empty();
  if (o.xprtsec == Xprtsec::kMtls && !has_both) {
    return BadOption("xprtsec=mtls", "needs tlscert= and tlskey=");
  }
  if (o.xprtsec != Xprtsec::kMtls && has_any) {
    return BadOption(o.tls_cert.empty() ? "tlskey=" : "tlscert=", "needs xprtsec=mtls");
  }
  return absl::OkStatus();
}

absl::Status CheckTogether(const Options& o) {
  if (o.cache.reg_min > o.cache.reg_max || o.cache.dir_min > o.cache.dir_max) {
    return BadOption("ac*", "a minimum is larger than its maximum; set acregmax or acdirmax too");
  }
  if (o.proto == Proto::kTcp && !o.rdma_device.empty()) {
    return BadOption(absl::StrCat("rdmadev=", o.rdma_device), "not allowed with proto=tcp");
  }
  return CheckProtection(o);
}

// A name has its ports and addresses where it is registered.
absl::Status CheckSource(const Options& o) {
  if (!o.source.is_name) {
    return o.names.empty()
               ? absl::OkStatus()
               : BadOption(absl::StrCat("names=", o.names), "the source is not a DAFS name");
  }
  if (o.port != 0) return BadOption("port=", "not allowed with a DAFS name, which has ports");
  if (!o.addresses.empty()) {
    return BadOption("addresses=", "not allowed with a DAFS name, which has addresses");
  }
  return absl::OkStatus();
}

// krb5i and krb5p are krb5 with TLS: no integrity without encryption.
void ApplySec(Options& o) {
  if (o.sec != Sec::kKrb5i && o.sec != Sec::kKrb5p) return;
  o.sec = Sec::kKrb5;
  if (o.xprtsec == Xprtsec::kNone) o.xprtsec = Xprtsec::kTls;
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
        return absl::InvalidArgumentError(
            absl::StrCat("-", std::string(1, letter), ": expected a value"));
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
        return absl::InvalidArgumentError(absl::StrCat("unknown flag -", std::string(1, letter)));
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
      return absl::InvalidArgumentError(absl::StrCat("unknown flag ", word));
    } else {
      RETURN_IF_ERROR(ParseLetters(word, caller, words, line));
    }
  }
  return line;
}

}  // namespace

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
            ? absl::StrCat("too many arguments: ", line.positional[2])
            : "usage: mount.dafs SERVER[:PORT]:/EXPORT|NAME DIR [-fv] [-o option,...]");
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
  // Every user of the mount is the user that the password belongs to.
  if (o.sec == Sec::kText &&
      std::find(o.list.begin(), o.list.end(), "allow_other") == o.list.end()) {
    o.allow_other = false;
  }
  ApplySec(o);
  if (o.sec == Sec::kKrb5 && !caller.root) {
    return BadOption("sec=krb5",
                     "only root can mount so: each user's tickets are read as that user");
  }
  if (!o.guardian_given) o.guardian = caller.root && !o.foreground && o.sec != Sec::kKrb5;
  RETURN_IF_ERROR(CheckTogether(o));
  if (o.remount) return o;  // the source is not checked: mount(8) may spell it differently
  ASSIGN_OR_RETURN(o.source, ParseSource(line.positional[0]));
  RETURN_IF_ERROR(CheckSource(o));
  if (o.port != 0 && o.source.port != 0 && o.port != o.source.port) {
    return BadOption(absl::StrCat("port=", o.port),
                     absl::StrCat("the source has port ", o.source.port));
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
