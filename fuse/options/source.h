// The source of a mount, as the command line names it: SERVER[:PORT]:/EXPORT, or a DAFS name (A.3).
// Values and pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace dafs::fuse {

// An IPv6 address is in brackets: [::1]:20149:/export.
struct Source {
  std::string text;         // as given: the source in /proc/mounts
  bool is_name = false;     // the rest is what fuse/mount/client/mount_name.h finds
  std::string host;         // name or numeric address, without brackets
  uint16_t port = 0;        // 0: none was given
  std::string export_path;  // begins with '/'; ends with it only if it is "/"
  bool operator==(const Source&) const = default;
};

// A text without ":" and "/" is a name. Fails with kInvalidArgument; the message says what is wrong
// with `text`.
absl::StatusOr<Source> ParseSource(std::string_view text);

}  // namespace dafs::fuse
