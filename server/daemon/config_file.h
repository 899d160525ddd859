// The lines of the configuration file of `dafsd`.
//
// A file has one `key = value` per line. Keys are the long options without their dashes. A key may
// be repeated if the option may be. A key alone is a flag. `#` begins a comment.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dafs::server {

// A line of a configuration file as an option of the command line.
struct ConfigLine {
  std::string place;     // "FILE:LINE", for messages
  std::string argument;  // "--key=value"
};

// Splits a configuration file into lines. `path` is for messages. Does not check keys and values.
absl::StatusOr<std::vector<ConfigLine>> ParseConfigFile(const std::string& text,
                                                        const std::string& path);

}  // namespace dafs::server
