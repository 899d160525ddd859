// The addresses of hosts, as the system resolves them (nsswitch.conf(5)), all at once. Spec: A.5-07
// (one location for all addresses of a host).
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "client/names/location.h"

namespace dafs::names {

// Fills `addresses` or `problem` of those that have neither. Blocks for at most `most`.
void ResolveHosts(std::vector<Located>& locations, absl::Duration most);

}  // namespace dafs::names
