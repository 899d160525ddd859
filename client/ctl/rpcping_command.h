// `dafsctl rpcping`: calls procedure 0 of an RPC program at a server of RPC-over-RDMA, such as one
// of NFS over RDMA, and reports the server's version, credits, properties and times. Blocks.
// Spec: RPCRDMA2, RFC 8166, RFC 8267 (port 20049).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/ctl/ping_arguments.h"

namespace CLI {
class App;
}

namespace dafs::client {

struct RpcPingOptions {
  std::string server;   // rdma:HOST, tcp:HOST:PORT, [ADDRESS]:PORT; without a transport: rdma
  std::string program;  // a number, or a name of rpc(5)
  uint32_t version = 0;
  PingArguments times;
  uint32_t highest_rpcrdma = 2;  // the version to begin with
  bool json = false;
};

// Adds the command. `options` outlives `app`.
CLI::App* AddRpcPingCommand(CLI::App& app, RpcPingOptions& options);

// Prints the report. Errors are one line for people: the address, no connection, no reply in time,
// no common version, or the reason why the server does not serve the program.
absl::Status RpcPing(const RpcPingOptions& options);

}  // namespace dafs::client
