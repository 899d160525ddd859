#include "client/names/dns_service.h"

#include <ares.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <sys/select.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/status_macros.h"
#include "wire/dat/address.h"

namespace dafs::names {
namespace {

constexpr int kTries = 2;  // of each server
constexpr size_t kMostDnsNameBytes = 253;
constexpr size_t kMostLabelBytes = 63;
constexpr size_t kMostAddressesOfHost = 16;

struct Reply {
  int status = ARES_ETIMEOUT;
  std::string bytes;
};

void TakeReply(void* reply, int status, int /*timeouts*/, unsigned char* bytes, int size) {
  auto* const into = static_cast<Reply*>(reply);
  into->status = status;
  if (status == ARES_SUCCESS) {
    into->bytes.assign(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  }
}

struct HostReply {
  int status = ARES_ETIMEOUT;
  std::vector<std::string> addresses;  // without ports
};

void TakeHost(void* reply, int status, int /*timeouts*/, ares_addrinfo* found) {
  auto* const into = static_cast<HostReply*>(reply);
  into->status = status;
  if (found == nullptr) return;
  for (const ares_addrinfo_node* node = found->nodes; node != nullptr; node = node->ai_next) {
    if (into->addresses.size() == kMostAddressesOfHost) break;
    into->addresses.push_back(dat::Address(node->ai_addr, node->ai_addrlen).ToString());
  }
  ares_freeaddrinfo(found);
}

// A channel of c-ares, whose callbacks run in Run.
class DnsChannel {
 public:
  DnsChannel() = default;
  ~DnsChannel() {
    if (channel_ != nullptr) ares_destroy(channel_);
  }
  DnsChannel(const DnsChannel&) = delete;
  DnsChannel& operator=(const DnsChannel&) = delete;

  absl::Status Open(const NamesConf& conf) {
    deadline_ = absl::Now() + conf.timeout;
    ares_options options = {};
    // The waits for one server double. All are within the time of the service.
    options.timeout = static_cast<int>(absl::ToInt64Milliseconds(conf.timeout / (2 * kTries)));
    options.tries = kTries;
    if (int error = ares_init_options(&channel_, &options, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES);
        error != ARES_SUCCESS) {
      return absl::UnavailableError(ares_strerror(error));
    }
    if (conf.dns_servers.empty()) return absl::OkStatus();
    if (ares_set_servers_ports_csv(channel_, conf.dns_servers.c_str()) != ARES_SUCCESS) {
      return absl::InvalidArgumentError(
          absl::StrCat("dns-servers = ", conf.dns_servers, ": expected ADDRESS[:PORT],..."));
    }
    return absl::OkStatus();
  }

  // The first domain of resolv.conf(5); empty: none.
  std::string Domain() const {
    ares_options options = {};
    int mask = 0;
    if (ares_save_options(channel_, &options, &mask) != ARES_SUCCESS) return "";
    std::string domain = options.ndomains > 0 ? options.domains[0] : "";
    ares_destroy_options(&options);
    return domain;
  }

  // `reply` must live until Run returns.
  void Ask(const std::string& name, int type, Reply& reply) {
    ares_query(channel_, name.c_str(), ns_c_in, type, TakeReply, &reply);
  }
  void AskHost(const std::string& host, uint16_t port, HostReply& reply) {
    ares_addrinfo_hints hints = {};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = ARES_AI_NUMERICSERV;
    ares_getaddrinfo(channel_, host.c_str(), std::to_string(port).c_str(), &hints, TakeHost,
                     &reply);
  }

  // Until all is answered, or the time is over.
  void Run() {
    for (;;) {
      fd_set reads, writes;
      FD_ZERO(&reads);
      FD_ZERO(&writes);
      const int count = ares_fds(channel_, &reads, &writes);
      if (count == 0) return;
      const absl::Duration left = deadline_ - absl::Now();
      if (left <= absl::ZeroDuration()) {
        ares_cancel(channel_);
        return;
      }
      timeval most = absl::ToTimeval(left);
      timeval wait = {};
      select(count, &reads, &writes, nullptr, ares_timeout(channel_, &most, &wait));
      ares_process(channel_, &reads, &writes);
    }
  }

 private:
  ares_channel channel_ = nullptr;
  absl::Time deadline_;
};

bool IsAbsent(int status) { return status == ARES_ENOTFOUND || status == ARES_ENODATA; }

absl::Status NoReply(const std::string& what, int status) {
  const std::string why =
      status == ARES_ECANCELLED ? ares_strerror(ARES_ETIMEOUT) : ares_strerror(status);
  if (IsAbsent(status)) return absl::NotFoundError(absl::StrCat("no record ", what));
  return absl::UnavailableError(absl::StrCat(what, ": ", why));
}

struct Target {
  uint16_t priority;
  uint16_t weight;
  std::string host;
  uint16_t port;
};

absl::StatusOr<std::vector<Target>> ParseTargets(const std::string& owner, const Reply& reply) {
  const std::string what = absl::StrCat("SRV ", owner);
  if (reply.status != ARES_SUCCESS) return NoReply(what, reply.status);
  ares_srv_reply* records = nullptr;
  const int status =
      ares_parse_srv_reply(reinterpret_cast<const unsigned char*>(reply.bytes.data()),
                           static_cast<int>(reply.bytes.size()), &records);
  if (status != ARES_SUCCESS) return NoReply(what, status);
  std::vector<Target> targets;
  absl::Status bad;
  for (const ares_srv_reply* one = records; one != nullptr && bad.ok(); one = one->next) {
    const std::string host = one->host;
    // RFC 2782: the service is decidedly not available.
    if (host.empty() || host == ".") continue;
    if (targets.size() == kMostLocations) {
      bad = absl::InvalidArgumentError(absl::StrCat(what, ": more than 64 records"));
    } else if (!CheckHost(host).ok() || one->port == 0) {
      bad = absl::InvalidArgumentError(absl::StrCat(
          what, ": not a host and port: ", absl::CHexEscape(host.substr(0, 80)), " ", one->port));
    }
    targets.push_back({one->priority, one->weight, host, one->port});
  }
  ares_free_data(records);
  RETURN_IF_ERROR(bad);
  if (targets.empty()) return absl::NotFoundError(absl::StrCat(what, " has no server"));
  std::sort(targets.begin(), targets.end(), [](const Target& a, const Target& b) {
    return std::tuple(a.priority, -a.weight, a.host, a.port) <
           std::tuple(b.priority, -b.weight, b.host, b.port);
  });
  return targets;
}

struct Attributes {
  std::optional<std::string> path;
  std::optional<std::string> version;
};

absl::StatusOr<Attributes> ParseAttributes(const std::string& owner, const Reply& reply) {
  const std::string what = absl::StrCat("TXT ", owner);
  Attributes attributes;
  if (IsAbsent(reply.status)) return attributes;
  if (reply.status != ARES_SUCCESS) return NoReply(what, reply.status);
  ares_txt_reply* strings = nullptr;
  const int status =
      ares_parse_txt_reply(reinterpret_cast<const unsigned char*>(reply.bytes.data()),
                           static_cast<int>(reply.bytes.size()), &strings);
  if (IsAbsent(status)) return attributes;
  if (status != ARES_SUCCESS) return NoReply(what, status);
  bool is_repeated = false;
  for (const ares_txt_reply* one = strings; one != nullptr; one = one->next) {
    const std::string text(reinterpret_cast<const char*>(one->txt), one->length);
    for (const auto& [key, value] :
         {std::pair("path=", &attributes.path), std::pair("version=", &attributes.version)}) {
      if (!text.starts_with(key)) continue;
      is_repeated = is_repeated || value->has_value();
      *value = text.substr(std::string_view(key).size());
    }
  }
  ares_free_data(strings);
  if (is_repeated) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": more than one path= or version="));
  }
  return attributes;
}

std::vector<Located> ResolveTargets(const std::vector<Target>& targets, DnsChannel& channel) {
  std::map<std::pair<std::string, uint16_t>, HostReply> hosts;
  for (const Target& target : targets) hosts[{target.host, target.port}];
  for (auto& [host, reply] : hosts) channel.AskHost(host.first, host.second, reply);
  channel.Run();
  std::vector<Located> all;
  for (const Target& target : targets) {
    const HostReply& reply = hosts[{target.host, target.port}];
    Located& one = all.emplace_back();
    one.location.host = target.host;
    one.location.port = target.port;
    one.addresses = reply.addresses;
    if (one.addresses.empty()) {
      one.problem =
          std::string(NoReply(absl::StrCat("address of ", target.host), reply.status).message());
    }
  }
  return all;
}

}  // namespace

absl::StatusOr<std::string> SrvName(const std::string& name, const std::string& domain) {
  std::string owner = absl::StrCat("_dafs._tcp.", name);
  if (name.find('.') == name.npos && !domain.empty()) absl::StrAppend(&owner, ".", domain);
  if (owner.ends_with(".")) owner.pop_back();
  size_t label = 0;
  bool is_name = owner.size() <= kMostDnsNameBytes;
  for (const char c : owner + ".") {
    const bool is_letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                           (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    if (c == '.' ? label == 0 || label > kMostLabelBytes : !is_letter) is_name = false;
    label = c == '.' ? 0 : label + 1;
  }
  if (!is_name) return absl::InvalidArgumentError("not a name that DNS can have");
  return owner;
}

absl::StatusOr<std::vector<Located>> AskDns(const NamesConf& conf, const std::string& name) {
  DnsChannel channel;
  RETURN_IF_ERROR(channel.Open(conf));
  absl::StatusOr<std::string> owner =
      SrvName(name, conf.dns_domain.empty() ? channel.Domain() : conf.dns_domain);
  if (!owner.ok()) return absl::NotFoundError(owner.status().message());
  Reply srv, txt;
  channel.Ask(*owner, ns_t_srv, srv);
  channel.Ask(*owner, ns_t_txt, txt);
  channel.Run();
  ASSIGN_OR_RETURN(const std::vector<Target> targets, ParseTargets(*owner, srv));
  ASSIGN_OR_RETURN(const Attributes attributes, ParseAttributes(*owner, txt));
  absl::StatusOr<std::string> path = CheckPath(attributes.path.value_or("/"));
  if (!path.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TXT ", *owner, ": path=: ", path.status().message()));
  }
  std::vector<Located> all = ResolveTargets(targets, channel);
  for (Located& one : all) {
    one.location.path = *path;
    one.location.version = absl::CHexEscape(attributes.version.value_or(""));
  }
  return all;
}

}  // namespace dafs::names
