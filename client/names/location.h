// A DAFS name, and a location: one place at which a server exports what the name stands for.
// Spec: A.3 (DAFS name), A.4 (DAFS location). Values and pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dafs::names {

inline constexpr size_t kMostNameBytes = 255;
// Of one name. A longer answer is refused: an administrator made an error, or the answer is forged.
inline constexpr size_t kMostLocations = 64;

// Transport types (A.4.1.1). The draft also has VI and IBRC, which this project does not have.
inline constexpr char kIwarp[] = "IWARP";
inline constexpr char kRdma[] = "RDMA";

struct Location {
  std::string transport;   // empty: every transport of the server
  std::string host;        // a name or a numeric address, without brackets
  uint16_t port = 0;       // the connection qualifier (A.4.1.3); 0: the default
  std::string path = "/";  // begins with '/'; ends with it only if it is "/", the root (A.4.2)
  std::string version;     // of the protocol (A.4.3); empty: not known
  bool operator==(const Location&) const = default;
};

// A DAFS name is 1 to 255 bytes of UTF-8 without control characters, "/" and ":". The last two show
// that a mount source, or a word in the file of names, is a server and not a name.
absl::Status CheckName(std::string_view name);
// A host name, or a numeric address without brackets, of at most 255 bytes.
absl::Status CheckHost(std::string_view host);
// Adds a missing "/" at the beginning, and removes those at the end. kInvalidArgument: it is too
// long, has "." or ".." as a component, or control characters.
absl::StatusOr<std::string> CheckPath(std::string_view path);
// The port of a connection qualifier: empty and "dafs" are 0, the default.
absl::StatusOr<uint16_t> ParseQualifier(std::string_view qualifier);
// Whether this client supports the protocol `version`.
bool IsSpoken(const std::string& version);

// Parses HOST[:PORT]:/PATH, with an IPv6 address in brackets. kInvalidArgument: gives the reason.
absl::StatusOr<Location> ParseServerPath(std::string_view text);
// The same, and tcp://HOST[:PORT]/PATH and rdma://HOST[:PORT]/PATH for one transport.
absl::StatusOr<Location> ParseLocation(std::string_view text);
// HOST[:PORT]:/PATH.
std::string ToString(const Location& location);

// A location with the numeric addresses of its host.
struct Located {
  Location location;
  std::vector<std::string> addresses;  // as dat::Address::ToString
  std::string problem;                 // why there are none
  bool operator==(const Located&) const = default;
};

}  // namespace dafs::names
