#include "client/status/report_json.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "wire/protocol/procedures.h"

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
  return {{"breaks", report.promises.breaks},
          {"break_mean_us", absl::ToInt64Microseconds(report.MeanBreak())},
          {"voids", report.promises.voids}};
}

Json Delegated(const MountReport& report) {
  return {{"read", report.delegations.read},
          {"write", report.delegations.write},
          {"local_opens", report.delegations.local_opens},
          {"local_locks", report.delegations.local_locks},
          {"recalls", report.delegations.recalls},
          {"recall_mean_us", absl::ToInt64Microseconds(report.MeanRecall())}};
}

Json Buffers(const WorkerReport& w) {
  return {{"total", w.buffers.total},
          {"leased", w.buffers.leased},
          {"quarantined", w.buffers.quarantined},
          {"kept", w.buffers.kept},
          {"waiting", w.buffers.waiting},
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

// By the names of the procedures that were called.
Json Procedures(const CallTotals& totals) {
  Json procedures = Json::object();
  for (size_t i = 0; i < totals.by_proc.size(); ++i) {
    const ProcTotals& one = totals.by_proc[i];
    if (one.calls + one.lost == 0) continue;
    procedures[std::string(wire::kProcedures[i].name)] = {
        {"calls", one.calls},
        {"errors", one.errors},
        {"lost", one.lost},
        {"total_us", absl::ToInt64Microseconds(one.total)},
        {"longest_us", absl::ToInt64Microseconds(one.longest)}};
  }
  return procedures;
}

}  // namespace

std::string ReportJson(const MountReport& report) {
  Json workers = Json::array();
  for (const WorkerReport& worker : report.workers) workers.push_back(Worker(worker));
  const Json json = {{"server", report.server_name},
                     {"mount_point", report.mount_point},
                     {"requests_by", report.requests_by},
                     {"cpu_latency", report.cpu_latency},
                     {"lease_seconds", report.lease_seconds},
                     {"quiet_us", absl::ToInt64Microseconds(report.quiet)},
                     {"credentials", report.credentials},
                     {"caching", report.CachingName()},
                     {"promises", Promised(report)},
                     {"delegations", Delegated(report)},
                     {"silent_workers", report.silent_workers},
                     {"workers", std::move(workers)},
                     {"procedures", Procedures(report.Totals())}};
  // Compact and as UTF-8. The error handler keeps a strange name from throwing an exception.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dafs::client
