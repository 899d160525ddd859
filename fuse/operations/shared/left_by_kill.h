// State that a killed process has left to the one that continues its mount (docs/restart.md).
// Thread-safe. Nothing blocks. Empty unless a process of this mount was killed.
#pragma once

#include "fuse/cache/outdated_files.h"
#include "fuse/files/left_opens.h"
#include "fuse/files/resent_requests.h"

namespace dafs::fuse {

struct LeftByKill {
  ResentRequests resent;   // what the process had read and not answered
  LeftOpens opens;         // what the process had opened for requests not answered
  OutdatedFiles outdated;  // open files whose attributes in the kernel may be that process's
};

}  // namespace dafs::fuse
