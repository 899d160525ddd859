// The alternate locations of an export: where it is served if this server fails.
// Spec: 5.3, 6.1.4 (dafs_fs_locations), 6.1.6 (attribute 30).
// Values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct FailoverLocation {
  std::string server;  // HOST or HOST:PORT
  std::string path;    // of the export there: "/a"

  friend bool operator==(const FailoverLocation&, const FailoverLocation&) = default;
};

// The most that an export names: a client tries one after the other.
inline constexpr size_t kMostFailoverLocations = 8;

// Parses the value of failover=, "HOST[:PORT]:/PATH" one or more times, separated by '+', and adds
// it to `locations`. kInvalidArgument: the message says what is wrong.
absl::Status ParseFailover(std::string_view value, std::vector<FailoverLocation>* locations);
// Whether `text` is HOST, HOST:PORT or [ADDRESS]:PORT, at most 255 printable characters.
bool IsServerName(std::string_view text);

// The value of the attribute: the locations of the export `name`, whose path on this server is the
// fs_root. One element, also without locations.
std::vector<wire::FsLocations> AttributeOf(std::string_view name,
                                           const std::vector<FailoverLocation>& locations);

}  // namespace dafs::server
