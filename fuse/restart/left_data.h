// Written data that a killed mount.dafs has left in the memory of its live record, and the memory
// for such data in that of the next process (docs/restart.md).
// Main thread, before the workers start.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "client/state/client.h"
#include "fuse/cache/record/live_record.h"
#include "fuse/options/options.h"
#include "fuse/restart/handover_record.h"

namespace dafs::fuse {

// The bytes of memory for written data that the live record of a mount needs.
size_t LiveDataBytes(const Options& options, const client::ClientOptions& client);

// Copies the uncommitted data of a killed process, whose live record is the memfd `left`, to the
// client. The client sends it before it answers a request (client/recovery/committer.h). The copy
// is in memory of `live`. If that is null or full, a second kill loses the data that is not sent
// yet; a warning says so. Call it after RestoreMount. kDataLoss: the record contradicts itself.
absl::Status RestoreData(const HandoverRecord& record, int left, LiveRecord* live,
                         client::Client& client);

}  // namespace dafs::fuse
