// The program that is to continue a mount. Any thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace dafs::fuse {

// The argument by which mount.dafs prints HandoverRecord::kVersion.
inline constexpr char kRecordVersionFlag[] = "--record-version";

// The file of this program, for a successor: an upgrade has put another one there.
std::string OwnProgram();

// Whether `program` can read the records of this one: runs it to ask. Blocks for 5 s at most. The
// error says why not.
absl::Status CheckSuccessor(const std::string& program);

}  // namespace dafs::fuse
