// The level of the log as a word: what the administrator sets at run time. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace dafs {

// "error", "warning", "notice", "info" or "debug": the least severity that is logged.
std::string_view LogLevelName();

// Sets the level, logs that, and returns a line that says so. kInvalidArgument: no such level.
absl::StatusOr<std::string> ChangeLogLevel(std::string_view name);

}  // namespace dafs
