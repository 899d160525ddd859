// The options of dafsctl's commands that connect to a server by TLS, as those of a mount. Any
// thread. Blocks only while the files of keys and certificates are read.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "wire/dat/dat.h"

namespace CLI {
class App;
}

namespace dafs::client {

struct TlsArguments {
  std::string xprtsec = "none";
  std::string ca;
  std::string cert;
  std::string key;
  bool wanted() const { return xprtsec != "none"; }
};

void AddTlsArguments(CLI::App& command, TlsArguments& arguments);

// The TCP transport to `host`, with TLS if `arguments` want it. kInvalidArgument: what they lack.
absl::StatusOr<std::unique_ptr<dat::Provider>> NewTcpProvider(const TlsArguments& arguments,
                                                              const std::string& host);

}  // namespace dafs::client
