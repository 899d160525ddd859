// The checks of the way to a server.
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/doctor_checks.h"
#include "client/exchange/report.h"
#include "client/files/files.h"
#include "client/state/client.h"
#include "runtime/files/unique_fd.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/run.h"
#include "runtime/status_macros.h"
#include "wire/dat/address.h"
#include "wire/dat/dat.h"

namespace dafs::client {
namespace {

constexpr int kLeastMtu = 1280;  // IPv6 needs it

Finding Failed(const char* check, std::string found, std::string remedy) {
  return {.check = check,
          .verdict = Verdict::kFailed,
          .found = std::move(found),
          .remedy = std::move(remedy)};
}

// The local address that packets to `peer` have; nullopt: errno says why there is no route.
std::optional<dat::Address> LocalAddressFor(const dat::Address& peer) {
  const UniqueFd fd(socket(peer.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || connect(fd.get(), peer.get(), peer.size()) != 0) return std::nullopt;
  sockaddr_storage local = {};
  socklen_t size = sizeof(local);
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &size) != 0) return std::nullopt;
  dat::Address address(reinterpret_cast<const sockaddr*>(&local), size);
  address.set_port(0);
  return address;
}

std::string DeviceOf(const dat::Address& local) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != local.family()) continue;
    const socklen_t size =
        one->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    dat::Address address(one->ifa_addr, size);
    address.set_port(0);
    if (address == local) return one->ifa_name;
  }
  return "";
}

int MtuOf(const std::string& device) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = {};
  device.copy(request.ifr_name, sizeof(request.ifr_name) - 1);
  return ioctl(fd.get(), SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

// Connects within kDoctorPatience. 0, or the error.
int TryPort(const dat::Address& peer) {
  const UniqueFd fd(socket(peer.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return errno;
  if (connect(fd.get(), peer.get(), peer.size()) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd ready = {.fd = fd.get(), .events = POLLOUT, .revents = 0};
  if (poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(kDoctorPatience))) <= 0) {
    return ETIMEDOUT;
  }
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

Findings CheckRoute(const dat::Address& peer) {
  const std::optional<dat::Address> local = LocalAddressFor(peer);
  if (!local.has_value()) {
    return {Failed("route", absl::StrCat("to ", peer.ToString(), ": ", std::strerror(errno)),
                   "bring the interface up, or add a route: ip route add")};
  }
  const std::string device = DeviceOf(*local);
  Findings findings = {Ok("route", absl::StrCat("to ", peer.ToString(), " by ",
                                                device.empty() ? "an unknown device" : device))};
  if (const int mtu = device.empty() ? 0 : MtuOf(device); mtu >= kLeastMtu) {
    findings.push_back(Ok("mtu", absl::StrCat(mtu, " bytes on ", device)));
  } else if (mtu > 0) {
    findings.push_back({"mtu", Verdict::kWarning, absl::StrCat(mtu, " bytes on ", device),
                        absl::StrCat("raise it: ip link set ", device, " mtu 1500")});
  }
  return findings;
}

Finding CheckPort(const dat::Address& peer) {
  const int error = TryPort(peer);
  const std::string port = absl::StrCat("TCP ", peer.ToString());
  if (error == 0) return Ok("port", port + " accepts connections");
  return Failed("port", absl::StrCat(port, ": ", std::strerror(error)),
                error == ECONNREFUSED
                    ? "start dafsd there, and give it this address with --listen"
                    : "let the firewalls on the way pass this port; check that the server is up");
}

absl::StatusOr<SessionReport> OpenSession(const std::string& server, const std::string& host,
                                          const TlsArguments& tls,
                                          std::vector<dat::Address> addresses) {
  ASSIGN_OR_RETURN(const std::unique_ptr<dat::Provider> tcp, NewTcpProvider(tls, host));
  ClientOptions options;
  options.addresses = std::move(addresses);
  options.providers = {tcp.get()};
  options.server_name = server;
  options.client_id_string = absl::StrCat("dafsctl doctor ", getpid());
  options.max_requests = 4;
  options.buffers.bytes = size_t{4} << 20;
  options.soft = true;
  options.timeout = options.connect_timeout = kDoctorPatience;
  ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Client::Create(std::move(options)));
  ASSIGN_OR_RETURN(const std::unique_ptr<Loop> loop, Loop::Create());
  ASSIGN_OR_RETURN(const std::unique_ptr<Files> files, Files::Create(*client, *loop));
  absl::Status connected = RunUntilDone(*loop, files->Connect());
  if (!connected.ok()) {
    files->Shutdown();
    return connected;
  }
  SessionReport session = files->Report().session;
  RunUntilDone(*loop, files->Disconnect());
  return session;
}

Finding CheckProtocol(const std::string& server, const std::string& host, const TlsArguments& tls,
                      const std::vector<dat::Address>& addresses) {
  const absl::StatusOr<SessionReport> session = OpenSession(server, host, tls, addresses);
  if (!session.ok()) {
    return Failed("protocol", std::string(session.status().message()),
                  "check that the port is that of a dafsd, and read the log there");
  }
  if (!session->trusted) {
    return {"protocol", Verdict::kWarning,
            "the server answers, but admits this machine to no export",
            "mount as root, use TLS (--xprtsec), or give the export `insecure` or this address in "
            "clients="};
  }
  return Ok("protocol", absl::StrCat("a session over ", session->transport));
}

}  // namespace

Findings CheckServer(const std::string& server, const TlsArguments& tls) {
  std::string host;
  uint16_t port = dat::kDefaultPort;
  if (const absl::Status split = dat::SplitHostPort(server, &host, &port); !split.ok()) {
    return {Failed("name", std::string(split.message()), "give host, host:port or [address]:port")};
  }
  const absl::StatusOr<std::vector<dat::Address>> addresses = dat::ResolveHost(host, port);
  if (!addresses.ok()) {
    return {Failed("name", std::string(addresses.status().message()),
                   "correct the name, or add it to DNS or /etc/hosts")};
  }
  Findings findings = {Ok("name", absl::StrCat(host, " is ", addresses->front().ToString()))};
  bool reached = false;
  for (const dat::Address& address : *addresses) {
    Findings route = CheckRoute(address);
    const bool has_route = route.front().verdict != Verdict::kFailed;
    findings.insert(findings.end(), route.begin(), route.end());
    if (!has_route) continue;
    findings.push_back(CheckPort(address));
    reached |= findings.back().verdict == Verdict::kOk;
  }
  if (reached) findings.push_back(CheckProtocol(server, host, tls, *addresses));
  // One of several addresses is enough.
  if (reached) {
    for (Finding& one : findings) {
      if (one.verdict == Verdict::kFailed && one.check != "protocol") {
        one.verdict = Verdict::kWarning;
      }
    }
  }
  return findings;
}

}  // namespace dafs::client
