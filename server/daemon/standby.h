// `dafsd --standby`: a server that waits until no other one uses its state directory, then serves.
// Meanwhile it does not listen, so that clients which try its address go on to the next one at
// once. Spec: docs/availability.md.
#pragma once

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "server/clients/options.h"
#include "server/clients/state_lock.h"

namespace dafs::server {

// Returns the lock on the state directory. Blocks while another server holds it; calls `on_wait`
// before that. Then reads exports and certificates again, because they may have changed meanwhile;
// if that fails, logs why and keeps the former ones. Errors: those of CheckStateDir and
// StateLock::Await.
absl::StatusOr<std::unique_ptr<StateLock>> AwaitTurn(ServerOptions& options,
                                                     absl::AnyInvocable<void()> on_wait);

}  // namespace dafs::server
