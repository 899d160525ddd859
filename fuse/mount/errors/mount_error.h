// The error messages of a mount that failed: a one-line reason for each cause, and the exit code of
// mount(8). Pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "fuse/mount/process/exit_code.h"
#include "fuse/options/options.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

// The functions set Outcome::may_pass if the server was not reached.
// `status` is from dat::ResolveHost.
Outcome HostError(const std::string& host, const absl::Status& status);
// `status` is from Files::Connect.
Outcome ConnectError(const Options& options, const absl::Status& status);
// `status` is from Files::Mount.
Outcome ExportError(const Options& options, const absl::Status& status);
// Files::Mount found an object that is not a directory.
Outcome RootTypeError(const Options& options, wire::ObjectType type);

// The components of an export path; none for "/".
std::vector<std::string> ExportPath(const Source& source);

}  // namespace dafs::fuse
