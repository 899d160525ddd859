// Parses the command line of `dafsd` and its configuration file, which has the same options.
//
// For options with one value, the command line overrides the file; exports and addresses add up.
// Any thread. Blocks while the file is read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/clients/options.h"
#include "server/daemon/config.h"

namespace dafs::server {

// Parses the arguments after the program's name, and the file of --config. kInvalidArgument: one
// line that names the error; in the file it begins with FILE:LINE.
absl::StatusOr<Config> ParseConfig(const std::vector<std::string>& arguments);

// Reads the exports again, for a reload: the same arguments, with the file as it now reads.
// `others`, if not null, gets the lines of the file that are not exports. kInvalidArgument as
// above; the message names the line of the export.
absl::StatusOr<std::vector<Export>> ReadExports(const std::vector<std::string>& arguments,
                                                std::vector<std::string>* others = nullptr);
// Puts the place of an export ("FILE:LINE: ") before a message that begins with `export
// NAME=DIRECTORY: `, if the file of the arguments has that export.
std::string WithPlaceOfExport(const std::vector<std::string>& arguments, std::string_view message);
// Makes the path of --config absolute, because a daemon changes its directory.
void MakeConfigAbsolute(std::vector<std::string>& arguments);

}  // namespace dafs::server
