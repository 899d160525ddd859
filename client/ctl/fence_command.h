// `dafsctl fence`: shows and changes fencing lists of a server (docs/fencing.md).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/ctl/tls_arguments.h"

namespace CLI {
class App;
}

namespace dafs::client {

struct FenceRequest {
  std::string target;            // SERVER:/EXPORT[/PATH]
  std::vector<std::string> ids;  // none for show
  std::string as = "operator";   // the fence id of dafsctl itself; init keeps it in the list
  std::string proto = "auto";
  double timeout_s = 60;
  bool json = false;
  TlsArguments tls;
};

// Adds the command with its words show, init, allow, deny. Parsing sets `request`.
CLI::App* AddFenceCommand(CLI::App& app, FenceRequest& request);

// Executes the parsed command. OK after `deny`: no request of the denied clients is executed any
// more. Errors name the remedy.
absl::Status AskForFence(const CLI::App& command, const FenceRequest& request);

}  // namespace dafs::client
