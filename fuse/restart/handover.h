// The state of a mount as a record, and back (docs/restart.md). Called on the main thread while the
// workers serve no request, before the first request of a new process and after the last of an old
// one. Nothing blocks.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/state/client.h"
#include "fuse/cache/live_record.h"
#include "fuse/operations/mount_state.h"
#include "fuse/restart/handover_record.h"

namespace dafs::fuse {

// Fills in what does not change while programs use the mount, for a record that is kept for a kill.
// Also while the workers serve requests.
void SaveBasis(const MountState& state, client::Client& client, HandoverRecord& record);
// Makes of such a record the one to continue with: with what the killed process has left in its
// live record, and with numbers that it has not given.
void AfterKill(std::span<const LiveRecord::Item> left, HandoverRecord& record);

// Fills in all of `record` that `state` and `client` know. No delegation may be left, and nothing
// uncommitted.
void SaveMount(const MountState& state, client::Client& client, HandoverRecord& record);

// The options of the client that a record decides: who it is, and where its server is.
void SetClientOptions(const HandoverRecord& record, client::ClientOptions& options);

// Brings a new mount, whose client was made with SetClientOptions, into the state of the record.
// kDataLoss: the record contradicts itself.
absl::Status RestoreMount(const HandoverRecord& record, MountState& state, client::Client& client);

// The error of a record that contradicts itself in `what`.
absl::Status Contradiction(std::string_view what);

}  // namespace dafs::fuse
