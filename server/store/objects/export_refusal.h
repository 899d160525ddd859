// Why a directory of an export cannot be served, with the remedy. Any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/store/objects/export.h"

namespace dafs::server {

// kFailedPrecondition: `export NAME=DIRECTORY: PATH: WHY`.
absl::Status Refused(const Export& exported, absl::string_view path, absl::string_view why);

// The file system at `path` has failed with errno `error` to give a handle, or to open one.
absl::Status NoHandles(const Export& exported, const std::string& path, int error);

}  // namespace dafs::server
