// From the options of a server to those that it starts with: defaults filled in, bounds checked,
// and the part that its store gets. Any thread.
#pragma once

#include "absl/status/status.h"
#include "server/clients/options.h"
#include "server/store/access/exports/store_options.h"

namespace dafs::server {

// With the addresses to listen on, and the number of workers, where they were left out.
ServerOptions CompleteOptions(ServerOptions options);

// Returns why a server cannot start with them: kInvalidArgument with the option and its bounds, or
// what is wrong with the protection of an export or with the password file, which it reads.
absl::Status CheckOptions(const ServerOptions& options);

// Logs if exports get no delegations because the recall time is too long for leases of the kernel.
StoreOptions StoreOptionsOf(const ServerOptions& options);

}  // namespace dafs::server
