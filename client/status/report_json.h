// Prints the report of a mount for programs: `dafsctl status --json`. A pure function.
#pragma once

#include <string>

#include "client/status/mount_report.h"

namespace dafs::client {

// One line. Names that are not UTF-8, as a mount point may be, have U+FFFD for each bad byte.
std::string ReportJson(const MountReport& report);

}  // namespace dafs::client
