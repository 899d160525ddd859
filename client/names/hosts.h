// Resolves the hosts of locations by the system (nsswitch.conf(5)), all in parallel. Spec: A.5-07
// (one location for all addresses of a host).
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "client/names/location.h"

namespace dafs::names {

// Fills in `addresses` or `problem` where both are empty. Blocks for at most `most`.
void ResolveHosts(std::vector<Located>& locations, absl::Duration most);

}  // namespace dafs::names
