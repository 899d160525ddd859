// `dafsctl names`: shows what each name service answers for a DAFS name. Blocks.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace dafs::client {

struct NamesRequest {
  std::string name;
  std::string conf;  // empty: /etc/dafs/names.conf
  bool json = false;
};

// Adds the command. `request` outlives `app`.
CLI::App* AddNamesCommand(CLI::App& app, NamesRequest& request);

// Prints the answers. The error is one line for people: no service has the name, or names.conf is
// wrong.
absl::Status ShowNames(const NamesRequest& request);

}  // namespace dafs::client
