// The options of `dafsd`: declared for the parser of command lines, then checked and converted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/clients/options.h"
#include "server/daemon/config.h"

namespace CLI {
class App;
}

namespace dafs::server {

// The options of the command line whose values are converted after all have been parsed.
struct Arguments {
  std::vector<std::string> exports;
  std::vector<std::string> listen;
  std::string config;
  double lease_time_s = 90;
  double grace_time_s = 0;
  double recall_time_s = 10;
  std::string delegations = "write";
  double response_cache_time_s = 3600;
  std::string stable = "process";
  std::string kill_at;
  std::string admin_socket;
  size_t response_cache_mib = 256;
  uint64_t undo_space_mib = 1024;
  uint64_t export_cache_mib = 0;
  size_t message_memory_mib = 256;
  size_t direct_memory_mib = 32;
  uint32_t spin_us = 50;
  uint32_t slow_ms = 0;
  std::string audit_classes;
  std::string confine = "on";
  std::string cpu_latency = "auto";
  std::string rdma_read_channel = "offered";
};

// Declares every option. Parsing stores its value in `config` if it needs no conversion, otherwise
// in `arguments`. Both outlive `app`.
void DeclareOptions(CLI::App& app, Config& config, Arguments& arguments);

// Checks each value of `arguments` and stores it in `config`. kInvalidArgument: the message names
// the option.
absl::Status ConvertOptions(const Arguments& arguments, Config& config);

// Parses "tcp:ADDR:PORT" or "rdma:[V6]:PORT"; the port is optional.
absl::StatusOr<ListenAddress> ParseListen(const std::string& text);

}  // namespace dafs::server
