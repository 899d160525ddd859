// The options that `dafsctl ping` and `dafsctl rpcping` share.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace dafs::client {

struct PingArguments {
  int count = 4;         // of requests
  double timeout_s = 2;  // for the connection, and for each reply
};

// `counted`: the requests, for --help. `arguments` outlives `command`.
void AddPingArguments(CLI::App& command, PingArguments& arguments, const std::string& counted);

}  // namespace dafs::client
