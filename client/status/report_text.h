// Prints the report of a mount for people: `dafsctl status` and `dafsctl stats`. Pure functions.
#pragma once

#include <string>

#include "client/status/mount_report.h"

namespace dafs::client {

std::string StatusText(const MountReport& report);
std::string StatsText(const MountReport& report);

}  // namespace dafs::client
