// Written data that a killed mount.dafs has left in the memory of its live record, and the memory
// for such data in that of the next process (docs/restart.md).
// Main thread, before the workers start.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "client/state/client.h"
#include "fuse/cache/live_record.h"
#include "fuse/options/options.h"
#include "fuse/restart/handover_record.h"

namespace dafs::fuse {

// How much memory for data the live record of a mount needs, in bytes.
size_t LiveDataBytes(const Options& options, const client::ClientOptions& client);

// Copies the uncommitted data of a killed process, whose live record is the memfd `left`, to the
// client, which sends it before it answers a request (client/recovery/committer.h). The copy is in
// memory of `live`. If that is null or has no room, a further kill loses what is not sent then, and
// a warning says so. After RestoreMount. kDataLoss: the record contradicts itself.
absl::Status RestoreData(const HandoverRecord& record, int left, LiveRecord* live,
                         client::Client& client);

}  // namespace dafs::fuse
