#include "wire/dat/address.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace dafs::dat {
namespace {

absl::Status BadAddress(std::string_view text, const char* why) {
  return absl::InvalidArgumentError(absl::StrCat("address '", std::string(text), "': ", why));
}

}  // namespace

Address::Address(const sockaddr* address, socklen_t size)
    : size_(std::min<socklen_t>(size, sizeof(storage_))) {
  std::memcpy(&storage_, address, size_);
}

uint16_t Address::port() const {
  if (family() == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
  return 0;
}

void Address::set_port(uint16_t port) {
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&storage_)->sin6_port = htons(port);
  if (family() == AF_INET) reinterpret_cast<sockaddr_in*>(&storage_)->sin_port = htons(port);
}

bool Address::is_loopback() const {
  if (family() == AF_INET) {
    const uint32_t address =
        ntohl(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr);
    return (address >> 24) == 127;
  }
  if (family() == AF_INET6) {
    const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&address)) return address.s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(&address) != 0;
  }
  return false;
}

std::string Address::ToString() const {
  char host[NI_MAXHOST];  // a scope ("%eth0") may follow the address
  if (size_ == 0 ||
      getnameinfo(get(), size_, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "(no address)";
  }
  if (family() == AF_INET6) return absl::StrCat("[", host, "]:", port());
  return absl::StrCat(host, ":", port());
}

absl::Status SplitHostPort(std::string_view text, std::string* host, uint16_t* port) {
  std::string_view name;
  std::string_view rest;  // empty, or ":port"
  if (!text.empty() && text.front() == '[') {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) {
      return BadAddress(text, "']' is missing");
    }
    name = text.substr(1, close - 1);
    rest = text.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') {
      return BadAddress(text, "only ':port' may follow ']'");
    }
  } else {
    const size_t colon = text.find(':');
    if (colon != std::string_view::npos && text.find(':', colon + 1) != std::string_view::npos) {
      return BadAddress(text, "an IPv6 address goes in brackets");
    }
    name = text.substr(0, colon);
    if (colon != std::string_view::npos) rest = text.substr(colon);
  }
  if (name.empty()) {
    return BadAddress(text, "the host is missing");
  }
  if (!rest.empty()) {
    const std::string_view digits = rest.substr(1);
    uint16_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      return BadAddress(text, "the port is not a number up to 65535");
    }
    *port = value;
  }
  *host = std::string(name);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Address>> ResolveHost(const std::string& host, uint16_t port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    const std::string message = absl::StrCat("host '", host, "': ", gai_strerror(error));
    if (error == EAI_NONAME || error == EAI_NODATA) return absl::NotFoundError(message);
    return absl::UnavailableError(message);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    Address address(one->ai_addr, one->ai_addrlen);
    address.set_port(port);
    addresses.push_back(address);
  }
  if (addresses.empty()) {
    return absl::NotFoundError(absl::StrCat("host '", host, "': no IPv4 or IPv6 address"));
  }
  return addresses;
}

}  // namespace dafs::dat
