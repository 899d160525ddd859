// What a mount that could not be made tells its user: each cause its own one-line reason, with the
// exit code of mount(8). Pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "fuse/mount/exit_code.h"
#include "fuse/options/options.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

// Outcome::may_pass is set where the server was not reached.
// From dat::ResolveHost.
Outcome HostError(const Options& options, const absl::Status& status);
// From Files::Connect.
Outcome ConnectError(const Options& options, const absl::Status& status);
// From Files::Mount.
Outcome ExportError(const Options& options, const absl::Status& status);
// Files::Mount found something else than a directory.
Outcome RootTypeError(const Options& options, wire::ObjectType type);

// The components of an export path; none for "/".
std::vector<std::string> ExportPath(const Source& source);

}  // namespace dafs::fuse
