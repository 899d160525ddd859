// State that a killed process has left to the one that continues its mount (docs/restart.md).
// Thread-safe. Nothing blocks. Empty in a mount that no process was killed of.
#pragma once

#include "fuse/cache/outdated_files.h"
#include "fuse/files/left_opens.h"

namespace dafs::fuse {

struct LeftByKill {
  LeftOpens opens;         // what the process had opened for requests not answered
  OutdatedFiles outdated;  // what may have changed since
};

}  // namespace dafs::fuse
