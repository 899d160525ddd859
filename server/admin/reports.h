// The reports of `dafsctl server` as JSON. The names of the members are stable: programs read them.
// Times that end in _us are durations in microseconds.
// Called on the thread of the control socket. ClientsReport and StatsReport wait up to a
// second for the workers. Nothing here calls a file system.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "server/admin/admin_view.h"

namespace dafs::server {

// A list has at most this many rows. A member "cut" says whether there are more.
inline constexpr size_t kMostRows = 10000;

nlohmann::ordered_json StatusReport(const AdminView& view);
// The requests of all clients since the start, by procedure.
nlohmann::ordered_json StatsReport(const AdminView& view);
// The clients that have their name, the busiest first.
nlohmann::ordered_json ClientsReport(const AdminView& view);
// The opens and delegations of all clients, by file. `path`, unless empty: only of this file of the
// machine, or in this directory.
nlohmann::ordered_json OpensReport(const AdminView& view, std::string_view path);
// The locks and waiters of all clients, by file. `path`: the same.
nlohmann::ordered_json LocksReport(const AdminView& view, std::string_view path);
nlohmann::ordered_json ExportsReport(const AdminView& view);

}  // namespace dafs::server
