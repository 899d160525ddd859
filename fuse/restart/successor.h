// The program that is to continue a mount. Any thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace dafs::fuse {

// The argument by which mount.dafs prints HandoverRecord::kVersion.
inline constexpr char kRecordVersionFlag[] = "--record-version";

// The path of this program. After an upgrade it is the next version.
std::string OwnProgram();

// Runs `program` to find out whether it can read the records of this one. Blocks for at most 5 s.
// The error gives the reason if it cannot.
absl::Status CheckSuccessor(const std::string& program);

}  // namespace dafs::fuse
