// Addresses of peers: host names, and IPv4 and IPv6 addresses with a connection qualifier (port).
// Spec: WIRE 11.2 (default port 20149), A.4.1.
// Thread-safe. ResolveHost may block on the name service.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace dafs::dat {

// WIRE 11.2: 0x4EB5, in the RDMA connection manager's TCP port space.
inline constexpr uint16_t kDefaultPort = 20149;

// One numeric socket address. A value; two addresses are equal if their texts are.
class Address {
 public:
  Address() = default;
  Address(const sockaddr* address, socklen_t size);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  int family() const { return storage_.ss_family; }
  uint16_t port() const;
  void set_port(uint16_t port);
  bool is_loopback() const;

  // For example "127.0.0.1:20149" or "[::1]:20149".
  std::string ToString() const;

  friend bool operator==(const Address& a, const Address& b) {
    return a.ToString() == b.ToString();
  }

 private:
  sockaddr_storage storage_ = {};
  socklen_t size_ = 0;
};

// Splits "host", "host:port", "[v6]" or "[v6]:port". Without a port in `text`, `port` keeps its
// value. Errors: kInvalidArgument; the message names the fault.
absl::Status SplitHostPort(std::string_view text, std::string* host, uint16_t* port);

// Returns all addresses of `host` (a name or a numeric address) with `port`, in the order to try
// them. Never empty. Errors: kNotFound if the name is unknown, kUnavailable if the name service did
// not answer.
absl::StatusOr<std::vector<Address>> ResolveHost(const std::string& host, uint16_t port);

}  // namespace dafs::dat
