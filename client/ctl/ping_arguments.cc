#include "client/ctl/ping_arguments.h"

#include <CLI/CLI.hpp>

namespace dafs::client {

void AddPingArguments(CLI::App& command, PingArguments& arguments, const std::string& counted) {
  command.add_option("-c,--count", arguments.count, "number of " + counted)
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  command
      .add_option("-W,--timeout", arguments.timeout_s,
                  "seconds to wait for the connection, and for each reply")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
}

}  // namespace dafs::client
