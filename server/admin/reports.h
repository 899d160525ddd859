// The reports of `dafsctl server` as JSON. The names of the members are stable: programs read them.
// Times that end in _us are durations in microseconds.
// Called on the thread of the control socket. ClientsReport, FilesReport and StatsReport wait up to
// a second for the workers. Nothing here calls a file system.
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
// Whether the server takes new clients (ClientTable::SetDraining), and what is left: `serving`,
// `draining`, or `drained` once no client has a session or an open.
nlohmann::ordered_json DrainReport(const AdminView& view);
// The clients that have their name, those with the most requests first; with kByLoad, those that
// load the server most now.
inline constexpr std::string_view kByLoad = "load";
nlohmann::ordered_json ClientsReport(const AdminView& view, std::string_view order);
// The files that requests concern most, over the last seconds.
inline constexpr size_t kMostBusyFiles = 20;
nlohmann::ordered_json FilesReport(const AdminView& view);
// The opens and delegations of all clients, by file. `path`, unless empty: only of this file of the
// machine, or in this directory.
nlohmann::ordered_json OpensReport(const AdminView& view, std::string_view path);
// The PERSIST locks whose client has failed. `path`: as in OpensReport.
nlohmann::ordered_json FailedLocksReport(const AdminView& view, std::string_view path);
// The locks and waiters of all clients, by file. `path`: the same.
nlohmann::ordered_json LocksReport(const AdminView& view, std::string_view path);
nlohmann::ordered_json ExportsReport(const AdminView& view);

}  // namespace dafs::server
