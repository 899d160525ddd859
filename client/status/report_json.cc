#include "client/status/report_json.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "runtime/latency.h"
#include "runtime/log/log_level.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/totals_json.h"

namespace dafs::client {
namespace {

using Json = nlohmann::ordered_json;

Json Outstanding(const SessionReport& session) {
  Json calls = Json::array();
  for (const SessionReport::Outstanding& call : session.outstanding) {
    calls.push_back(
        {{"procedures", call.procedures}, {"age_us", absl::ToInt64Microseconds(call.age)}});
  }
  return calls;
}

Json Session(const SessionReport& s) {
  return {{"transport", s.transport},
          {"peer", s.peer},
          {"memory", s.memory},
          {"memory_by_windows", s.memory_by_windows},
          {"windows_bound", s.windows_bound},
          {"windows_ended", s.windows_ended},
          {"passed_over", s.passed_over},
          {"age_us", absl::ToInt64Microseconds(s.age)},
          {"session_id", s.session_id},
          {"server_id", s.server_id},
          {"instance", s.instance},
          {"cluster_id", s.cluster_id},
          {"trusted", s.trusted},
          {"checksums", s.checksums},
          {"big_endian", s.big_endian},
          {"max_request_size", s.max_request_size},
          {"max_response_size", s.max_response_size},
          {"max_requests", s.max_requests},
          {"max_credentials", s.max_credentials},
          {"nreq", s.nreq},
          {"target_nreq", s.target_nreq},
          {"slots", s.slots},
          {"slots_taken", s.slots_taken},
          {"waiting_for_slots", s.waiting_for_slots},
          {"outstanding", Outstanding(s)}};
}

Json Promised(const MountReport& report) {
  Json json = {{"breaks", report.promises.breaks.count()}};
  wire::AddTimes(report.promises.breaks, "break_", json);
  json["voids"] = report.promises.voids;
  return json;
}

Json Delegated(const MountReport& report) {
  Json json = {{"read", report.delegations.read},
               {"write", report.delegations.write},
               {"local_opens", report.delegations.local_opens},
               {"local_locks", report.delegations.local_locks},
               {"recalls", report.delegations.recalls}};
  wire::AddTimes(report.delegations.returns, "recall_", json);
  return json;
}

Json Operations(const MountReport& report) {
  Json list = Json::array();
  for (const PendingOperation& one : report.Operations()) {
    list.push_back({{"operation", one.operation},
                    {"file", one.file},
                    {"pid", one.pid},
                    {"process", one.process},
                    {"uid", one.uid},
                    {"age_us", absl::ToInt64Microseconds(one.age)}});
  }
  return list;
}

Json Buffers(const WorkerReport& w) {
  return {{"total", w.buffers.total},
          {"leased", w.buffers.leased},
          {"quarantined", w.buffers.quarantined},
          {"kept", w.buffers.kept},
          {"waiting", w.buffers.waiting},
          {"waits", w.buffers.waits},
          {"wait_us", absl::ToInt64Microseconds(w.buffers.wait_time)},
          {"bytes", w.buffers.bytes},
          {"resident_bytes", w.buffers.resident_bytes}};
}

Json Worker(const WorkerReport& w) {
  Json worker = {{"name", w.name}, {"connects", w.connects}};
  if (w.session.up) {
    worker["session"] = Session(w.session);
  } else {
    worker["session"] = nullptr;
    worker["not_connected"] = w.not_connected;
    worker["not_connected_us"] = absl::ToInt64Microseconds(w.not_connected_for);
  }
  if (!w.waiting.empty()) {
    worker["waiting_for"] = w.waiting;
    worker["waiting_us"] = absl::ToInt64Microseconds(w.waiting_for);
  }
  worker["fetched"] = w.fetched;
  worker["reissued"] = w.reissued;
  worker["buffers"] = Buffers(w);
  return worker;
}

Json PathsOf(const MountReport& report) {
  Json paths = Json::array();
  for (const Paths::Report& path : report.paths) {
    paths.push_back({{"address", path.address},
                     {"transport", path.transport},
                     {"state", path.state},
                     {"sessions", path.sessions}});
  }
  return paths;
}

// By the names of the procedures that were called.
Json Procedures(const wire::CallTotals& totals) {
  Json procedures = Json::object();
  for (size_t i = 0; i < totals.by_proc.size(); ++i) {
    const wire::ProcedureTotals& one = totals.by_proc[i];
    if (one.unused()) continue;
    Json& json = procedures[std::string(wire::kProcedures[i].name)] = wire::TotalsJson(one);
    json["lost"] = one.lost;
    json["retries"] = one.retries;
  }
  return procedures;
}

}  // namespace

std::string ReportJson(const MountReport& report) {
  Json users = Json::array();
  for (const UserReport& user : report.users) {
    const bool has_answer = user.quiet != absl::InfiniteDuration();
    users.push_back(
        {{"uid", user.uid},
         {"opens", user.opens},
         {"quiet_us", has_answer ? Json(absl::ToInt64Microseconds(user.quiet)) : Json(nullptr)}});
  }
  Json workers = Json::array();
  for (const WorkerReport& worker : report.workers) workers.push_back(Worker(worker));
  const Json json = {
      {"server", report.server_name},
      {"mount_point", report.mount_point},
      {"requests_by", report.requests_by},
      {"cpu_latency", report.cpu_latency},
      {"up_us", absl::ToInt64Microseconds(report.up)},
      {"restarts", report.restarts},
      {"restarted_at",
       report.restarts == 0 ? Json(nullptr) : Json(absl::ToUnixSeconds(report.restarted_at))},
      {"lease_seconds", report.lease_seconds},
      {"quiet_us", absl::ToInt64Microseconds(report.quiet)},
      {"credentials", report.credentials},
      {"caching", report.CachingName()},
      {"promises", Promised(report)},
      {"delegations", Delegated(report)},
      {"log_level", LogLevelName()},
      {"slow_us", absl::ToInt64Microseconds(report.slow)},
      {"slow_operations", report.SlowOperations()},
      {"calls_outstanding", report.OutstandingOperations()},
      {"calls_in_hand", report.OutstandingOperations()},  // the old name
      {"calls", Operations(report)},
      {"silent_workers", report.silent_workers},
      {"paths", PathsOf(report)},
      {"workers", std::move(workers)},
      {"users", std::move(users)},
      {"bucket_bounds_us", LatencyHistogram::BoundsUs()},
      {"procedures", Procedures(report.Totals())}};
  // Compact and as UTF-8. The error handler keeps a strange name from throwing an exception.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dafs::client
