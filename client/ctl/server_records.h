// `dafsctl server records`: the records with which a name service leads to the dafsd of this
// machine (A.1, A.5). Called on one thread; nothing blocks.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/names/location.h"

namespace CLI {
class App;
}

namespace dafs::client {

struct RecordsRequest {
  std::string name;  // the DAFS name
  std::string path = "/";
  std::string host;  // empty: this machine's host name, or the address if dafsd listens on one
  std::string base;  // of ldif: the entry above the names
  bool dns = false;
  bool ldif = false;  // neither: a line of the file of names
};

// Adds the command to those of `dafsctl server`. `request` outlives `server`.
void AddRecordsCommand(CLI::App& server, RecordsRequest& request);

// One location for each transport, host and port at which dafsd listens. `status` and `exports`:
// its reports, as JSON. kDataLoss: they are not such reports. kNotFound: dafsd does not export the
// path.
absl::StatusOr<std::vector<names::Location>> LocationsOf(const RecordsRequest& request,
                                                         const std::string& status,
                                                         const std::string& exports);

// Prints the records of these locations, or the locations as JSON.
absl::Status PrintRecords(const RecordsRequest& request,
                          const std::vector<names::Location>& locations, bool json);

}  // namespace dafs::client
