// The command line of `dafsd` and its configuration file, which has the same options.
//
// A file has one `key = value` per line. Keys are the long options without their dashes. A key may
// be repeated if the option may be. A key alone is a flag. `#` begins a comment. For options with
// one value, the command line overrides the file; exports and addresses add up.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/clients/options.h"

namespace dafs::server {

struct Config {
  ServerOptions server;
  bool foreground = false;
  bool verbose = false;
  std::string pid_file;
  // If not empty: print it and exit with 0 (--help, --version).
  std::string answer;
};

// Parses the arguments after the program's name, and the file of --config. kInvalidArgument: one
// line that names the error; in the file it begins with FILE:LINE.
absl::StatusOr<Config> ParseConfig(const std::vector<std::string>& arguments);

// A line of a configuration file as an option of the command line.
struct ConfigLine {
  std::string place;     // "FILE:LINE", for messages
  std::string argument;  // "--key=value"
};

// Splits a configuration file into lines. `path` is for messages. Does not check keys and values.
absl::StatusOr<std::vector<ConfigLine>> ParseConfigFile(const std::string& text,
                                                        const std::string& path);

// Parses "tcp:ADDR:PORT" or "rdma:[V6]:PORT"; the port is optional.
absl::StatusOr<ListenAddress> ParseListen(const std::string& text);

}  // namespace dafs::server
