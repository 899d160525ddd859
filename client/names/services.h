// Asks the name services of this machine in their order. Blocks: at most for NamesConf::timeout for
// each service and for the addresses of its hosts.
#pragma once

#include <string>

#include "client/names/answers.h"
#include "client/names/names_conf.h"

namespace dafs::names {

// `all`: also those after the first one that has the name. Otherwise a service that does not answer
// is skipped, as one that does not have the name.
Answers AskServices(const NamesConf& conf, const std::string& name, bool all);

}  // namespace dafs::names
