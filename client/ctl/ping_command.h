// `dafsctl ping`: opens a session with a server and times NULL requests. Blocks.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/ctl/ping_arguments.h"
#include "client/ctl/tls_arguments.h"

namespace CLI {
class App;
}

namespace dafs::client {

struct PingOptions {
  std::string server;  // host, host:port
  std::string proto = "auto";
  PingArguments times;
  TlsArguments tls;
};

// Adds the command. `options` outlives `app`.
CLI::App* AddPingCommand(CLI::App& app, PingOptions& options);

// Prints the session, a line for each request, and the sum of their times. Errors are one line for
// people: the address, no connection by any transport, or no reply.
absl::Status Ping(const PingOptions& options);

}  // namespace dafs::client
