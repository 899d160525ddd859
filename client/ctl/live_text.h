// The tables of dafsctl top and dafsctl iostat. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "client/ctl/figures.h"

namespace dafs::client {

// One line per mount.
std::string TopText(const std::vector<MountFigures>& mounts);
// The busiest clients of a server, at most `most`.
std::string ClientsText(const std::vector<ClientFigures>& clients, size_t most);
// The table of one mount, as nfsiostat(8) prints it.
std::string IostatText(const MountFigures& mount);

}  // namespace dafs::client
