// Queries the name services of this machine in the order of names.conf. Blocks for at most
// NamesConf::timeout for each service, and as long again for the addresses of its hosts.
#pragma once

#include <string>

#include "client/names/answers.h"
#include "client/names/names_conf.h"

namespace dafs::names {

// Stops at the first service that has the name, unless `all`. A service that does not answer is
// skipped, like one that does not have the name.
Answers AskServices(const NamesConf& conf, const std::string& name, bool all);

}  // namespace dafs::names
