// The state of a mount as a record, and back (docs/restart.md). Called on the main thread while the
// workers serve no request, before the first request of a new process and after the last of an old
// one. Nothing blocks.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/state/client.h"
#include "fuse/cache/record/live_record.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/restart/handover_record.h"

namespace dafs::fuse {

// Fills in the fields that do not change while programs use the mount, for the record that survives
// a kill. May be called while the workers serve requests.
void SaveBasis(const MountState& state, client::Client& client, HandoverRecord& record);
// Completes such a record for the process that continues the mount: adds the items that the killed
// process has `left` in its live record, and moves counters past the numbers that it may have used.
void AfterKill(std::span<const LiveRecord::Item> left, HandoverRecord& record);

// Fills in all fields of `record` that `state` and `client` have. All delegations must be returned
// and all data committed before.
void SaveMount(const MountState& state, client::Client& client, HandoverRecord& record);

// Sets the options that the record decides: the identity of the client and the addresses of the
// server.
void SetClientOptions(const HandoverRecord& record, client::ClientOptions& options);

// Brings a new mount, whose client was made with SetClientOptions, into the state of the record.
// kDataLoss: the record contradicts itself.
absl::Status RestoreMount(const HandoverRecord& record, MountState& state, client::Client& client);

// The error of a record that contradicts itself in `what`.
absl::Status Contradiction(std::string_view what);

}  // namespace dafs::fuse
