// `dafsctl top` and `dafsctl iostat`: reports that are repeated. Blocks between them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/ctl/mount_query.h"

namespace CLI {
class App;
}

namespace dafs::client {

struct LiveOptions {
  MountQuery query;
  double seconds = 1;  // between two reports
  int count = 0;       // of reports; 0: without end
  bool batch = false;
  std::string server_socket = "/run/dafs/dafsd.sock";
};

// Each adds a command. `options` outlives `app`; the commands share it.
CLI::App* AddTopCommand(CLI::App& app, LiveOptions& options);
CLI::App* AddIostatCommand(CLI::App& app, LiveOptions& options);

// Return after the last report. kNotFound: neither a mount nor a dafsd answers.
absl::Status RunTop(const LiveOptions& options);
absl::Status RunIostat(const LiveOptions& options);

}  // namespace dafs::client
