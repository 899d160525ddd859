// The identity of a caller in an export.
#pragma once

#include "server/store/holdings/caller.h"
#include "server/store/objects/export.h"
#include "wire/protocol/constants.h"

namespace dafs::server {

// Makes the thread act as `caller` in this export, squashed as the export says. SERVERFAULT if
// that fails.
wire::DafsStatus ActAs(const Caller& caller, const Export& exported);

}  // namespace dafs::server
