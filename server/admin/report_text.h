// The reports of `dafsctl server` as text for people. Pure functions of the JSON that reports.h
// makes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace dafs::server {

// One line of the member "drain" of the status.
std::string DrainText(const nlohmann::ordered_json& drain);
std::string StatusReportText(const nlohmann::ordered_json& report);
std::string StatsReportText(const nlohmann::ordered_json& report);
std::string ClientsReportText(const nlohmann::ordered_json& report);
std::string FilesReportText(const nlohmann::ordered_json& report);
std::string OpensReportText(const nlohmann::ordered_json& report);
std::string FailedLocksReportText(const nlohmann::ordered_json& report);
std::string LocksReportText(const nlohmann::ordered_json& report);
std::string ExportsReportText(const nlohmann::ordered_json& report);

}  // namespace dafs::server
