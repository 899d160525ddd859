// `dafsctl server`: queries the dafsd of this machine through its control socket. Called on one
// thread. AskServer blocks as AskControlSocket does, and with `wait_s` for that long.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/ctl/server_records.h"

namespace CLI {
class App;
}

namespace dafs::client {

struct ServerRequest {
  std::string socket = "/run/dafs/dafsd.sock";
  bool json = false;
  std::string argument;           // a file, a level or a client
  std::string sort = "requests";  // of clients: the order
  std::string lock;               // of unlock: ID or all
  bool broken = false;            // of locks: those of failed clients
  bool release = false;           // of locks: forgets the broken ones of a file
  bool undo = false;              // of drain
  std::string to;                 // of drain: where the server continues; empty: it only drains
  double wait_s = 0;              // of drain: how long to wait for its end, or for the clients
  RecordsRequest records;
};

// Adds the command and its subcommands. `request` outlives `app`.
CLI::App* AddServerCommand(CLI::App& app, ServerRequest& request);

// Sends the request of the parsed subcommand `command`, and prints the answer. Errors are one line
// for people.
absl::Status AskServer(const CLI::App& command, const ServerRequest& request);

}  // namespace dafs::client
