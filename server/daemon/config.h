// The command line of `dafsd` and its configuration file, which says the same things.
// A file has one `key = value` per line, keys being the long options without their dashes; a key
// may be repeated where the option may be; `#` begins a comment; a key alone is a flag. What the
// command line says stands before what the file says, for options that take one value; exports and
// addresses add up.
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
  // Not empty: what to print, and to exit with 0 (--help, --version).
  std::string answer;
};

// Parses the arguments behind the program's name, and the file that --config names.
// kInvalidArgument: one line, naming what is wrong; of the file, beginning with FILE:LINE.
absl::StatusOr<Config> ParseConfig(const std::vector<std::string>& arguments);

// A line of a configuration file as an option of the command line.
struct ConfigLine {
  std::string place;     // "FILE:LINE", for messages
  std::string argument;  // "--key=value"
};

// The lines of a configuration file. `path` is for messages. Keys and values are not checked.
absl::StatusOr<std::vector<ConfigLine>> ParseConfigFile(const std::string& text,
                                                        const std::string& path);

// "tcp:ADDR:PORT", "rdma:[V6]:PORT"; the port may be left out.
absl::StatusOr<ListenAddress> ParseListen(const std::string& text);

}  // namespace dafs::server
